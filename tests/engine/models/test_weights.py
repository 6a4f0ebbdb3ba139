"""A model's identity is its content, and its limits come from its files."""

import json
import shutil

import pytest
from castline.engine.models import ModelError
from castline.engine.models.weights import content_identity, locate


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "model"
    home.mkdir()
    (home / "config.json").write_text(json.dumps({"max_position_embeddings": 8192}))
    header = b'{"w": {}}'
    with (home / "model.safetensors").open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(80 * 2**20)
    return home


def test_identity_ignores_place_and_time_and_what_does_not_matter(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "elsewhere", copy_function=shutil.copy)
    (copy / "README.md").write_text("hello")
    (copy / "trainer_state.json").write_text("{}")
    assert content_identity(copy) == content_identity(folder)


@pytest.mark.parametrize("change", ["config", "header", "early", "late", "size"])
def test_identity_follows_content(folder, change):
    before = content_identity(folder)
    if change == "config":
        (folder / "config.json").write_text("{}")
    else:
        with (folder / "model.safetensors").open("r+b") as stream:
            if change == "size":
                stream.truncate(81 * 2**20)
            else:
                stream.seek({"header": 9, "early": 30, "late": 80 * 2**20 - 1}[change])
                stream.write(b"x")
    assert content_identity(folder) != before


def test_an_adapter_is_part_of_the_revision(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    plain = locate(str(folder), download=False)
    adapted = locate(f"{folder}+{adapter}", download=False)
    assert adapted.revision.startswith(plain.revision + "+")
    assert adapted.adapter == adapter


def test_the_context_is_the_models_own_up_to_a_cap(folder):
    assert locate(str(folder), download=False).context == 8192
    (folder / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 262144}}))
    assert locate(str(folder), download=False).context == 32768


def test_a_hub_model_that_is_not_here_is_not_fetched_unasked():
    pytest.importorskip("huggingface_hub")
    with pytest.raises(ModelError, match="nobody/nothing is neither a folder here") as caught:
        locate("nobody/nothing", download=False)
    assert "hf download nobody/nothing" in (caught.value.hint or "")
