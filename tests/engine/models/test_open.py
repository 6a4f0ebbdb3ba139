"""Names become models, or one clear message; and opening stays light."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from castline.engine.models import ModelError, open_model


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt", "unknown model name 'gpt'"),
        ("vllm:", "unknown model name"),
        ("openai:gpt", "unknown model name"),
        ("scripted:soon", "'soon' is not a number"),
        ("hf:/no/such/folder", "no folder /no/such/folder"),
        ("hf:/no/such/folder+/adapter", "no adapter in /adapter"),
    ],
)
def test_mistakes_are_explained(name, says):
    if name.startswith("hf") and find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    with pytest.raises(ModelError, match=says) as caught:
        open_model(name)
    assert caught.value.hint


def test_a_folder_without_a_model_is_refused(tmp_path):
    if find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        open_model(f"hf:{tmp_path}")


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("castline.engine.models.open.find_spec", lambda package: None)
    with pytest.raises(ModelError, match="transformers, which is not installed") as caught:
        open_model("embedded")
    assert "pip install 'castline[cpu]'" in (caught.value.hint or "")


def test_a_backend_that_contradicts_the_name_is_refused():
    with pytest.raises(ModelError, match="does not run on"):
        open_model("vllm:/tmp", backend="transformers")


def test_opening_imports_no_torch():
    code = """
import sys
from castline.engine.models import open_model
for name, backend in (("scripted", None), ("embedded", "transformers"), ("embedded", "vllm")):
    try:
        print(open_model(name, backend=backend).revision)
    except Exception as problem:
        assert "not installed" in str(problem), problem
heavy = {"torch", "vllm", "transformers"} & set(sys.modules)
assert not heavy, heavy
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
