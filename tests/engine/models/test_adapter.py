"""An adapter is merged into the weights, once, by content."""

import pytest
from castline.engine.models import embedded, open_model

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def adapter(needs, tmp_path_factory):
    """Random low-rank weights on one kind of layer."""
    needs("transformers", "torch", "peft", "outlines", "llguidance", "gguf")
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(embedded.prepare(), dtype="auto")
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    folder = tmp_path_factory.mktemp("adapter")
    adapted.save_pretrained(str(folder))
    return folder


def test_an_adapter_is_merged_and_keeps_constraints(adapter, tmp_path, monkeypatch):
    from safetensors import safe_open

    base = embedded.prepare()
    monkeypatch.setenv("CASTLINE_CACHE", str(tmp_path))
    plain = open_model(f"hf:{base}")
    model = open_model(f"hf:{base}+{adapter}")
    assert model.revision.startswith(plain.revision + "+")
    assert model.count_tokens("the loan") == plain.count_tokens("the loan")
    model.start()  # its canary shows that the merged folder decodes under a schema
    [folder] = (tmp_path / "merged").glob("*/")
    assert (folder / "chat_template.jinja").exists()
    with (
        safe_open(folder / "model.safetensors", "pt") as ours,
        safe_open(base / "model.safetensors", "pt") as its,
    ):
        for name, differs in (("q_proj", True), ("k_proj", False)):
            weight = f"model.layers.0.self_attn.{name}.weight"
            assert bool((ours.get_tensor(weight) != its.get_tensor(weight)).any()) == differs
