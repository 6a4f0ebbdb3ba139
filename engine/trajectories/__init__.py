"""Trajectories: the canonical model, the readers of other formats, and import into the store."""

from .actions import Action, actions
from .importing import FORMATS, Imported, import_files, read_files, store_trajectories
from .trajectory import MESSAGES, Actor, Message, Outcome, ToolCall, Trajectory

__all__ = [
    "FORMATS",
    "MESSAGES",
    "Action",
    "Actor",
    "Imported",
    "Message",
    "Outcome",
    "ToolCall",
    "Trajectory",
    "actions",
    "import_files",
    "read_files",
    "store_trajectories",
]
