"""The embedded model, converted for real: its tokenizer and end token are what grammars need."""

import json

import pytest
from castline.engine.models import embedded, open_model
from castline.engine.models.prepared import CHECKSUMS, verify

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def folder(needs):
    needs("transformers", "torch", "gguf")
    return embedded.prepare()


def test_the_folder_holds_what_it_says(folder):
    verify(folder)
    names = set(json.loads((folder / CHECKSUMS).read_text()))
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names


def test_tokens_are_counted_as_the_model_sees_them(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = open_model("embedded", backend="transformers")
    for text in (
        "Hello there, 12345.67 \u00e9 \U0001f600\n\n  it's",
        '{"a": "b\\n"}',
        "<|im_start|>user\nHi<|im_end|>\n",
        "",
    ):
        tokens = tokenizer.encode(text, add_special_tokens=False)
        assert model.count_tokens(text) == len(tokens)
        assert tokenizer.decode(tokens) == text
    assert tokenizer.tokenize("a 123") == ["a", "\u0120", "1", "2", "3"]
    assert tokenizer.eos_token_id == 2
    assert tokenizer.convert_ids_to_tokens(2) == "<|im_end|>"


def test_grammars_read_spaces_and_wide_characters(folder):
    """Fails with the tokenizer as the conversion leaves it."""
    llguidance_hf = pytest.importorskip("llguidance.hf")
    from llguidance import LLMatcher
    from transformers import AutoTokenizer

    tokenizer = llguidance_hf.from_tokenizer(AutoTokenizer.from_pretrained(folder))
    grammar = LLMatcher.grammar_from_json_schema({"enum": ["renew the loan \u00e9\u20ac"]})
    matcher = LLMatcher(tokenizer, grammar)
    tokens = tokenizer.tokenize_str('"renew the loan \u00e9\u20ac"')
    assert matcher.try_consume_tokens(tokens) == len(tokens)
    assert matcher.is_accepting()
    assert tokenizer.eos_token == 2
