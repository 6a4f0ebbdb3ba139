"""Model backends behind one protocol: requests with a schema each in, answers out as they finish.

model = open_model("embedded")
model.start()
for index, answer in model.generate(requests):
    ...
model.close()
"""

from .budget import longest_answer
from .open import open_model
from .protocol import Answer, Model, ModelError, Request, Sampling
from .scripted import ScriptedModel, draw

__all__ = [
    "Answer",
    "Model",
    "ModelError",
    "Request",
    "Sampling",
    "ScriptedModel",
    "draw",
    "longest_answer",
    "open_model",
]
