"""transformers in this process, its answers constrained through Outlines with llguidance.

Starts in seconds and decodes one request at a time. The keys and values of a prompt are kept for the next,
which computes only what differs: the steps of one trajectory are prefixes of each other.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from . import adapter
from .canary import check_constraints
from .markup import harmless, special_tokens
from .prepared import verify
from .protocol import Answer, ModelError, Request
from .threads import free_cores
from .weights import Weights

CHUNK = 128  # tokens
COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}


class TransformersModel:
    """A model on plain transformers, on a GPU where there is one."""

    backend = "transformers"
    why = (
        "transformers through Outlines starts sooner than vLLM and needs less; its JSON engine is "
        "llguidance, named explicitly, because Outlines' default ignores integer bounds and takes seconds "
        "for a schema that llguidance compiles in a millisecond"
    )

    def __init__(self, name: str, weights: Weights) -> None:
        self.name = name
        self.weights = weights
        self.model: Any = None
        self.totals = dict.fromkeys(
            ("requests", "errors", "prompt_tokens", "computed_prompt_tokens", "generated_tokens"), 0
        )

    @property
    def revision(self) -> str:
        return self.weights.revision

    @property
    def context(self) -> int:
        return self.weights.context

    def count_tokens(self, text: str) -> int:
        return self.weights.count_tokens(text)

    def start(self) -> None:
        if self.model is not None:
            return
        folder = self.weights.complete
        verify(folder)
        if self.weights.adapter is not None:
            folder = adapter.merged(folder, self.weights.adapter, self.revision)
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        for noisy in ("torch", "torchao", "transformers"):
            logging.getLogger(noisy).setLevel(logging.ERROR)
        try:
            import outlines
            import torch
            from outlines.backends.llguidance import LLGuidanceBackend
            from transformers import AutoModelForCausalLM, AutoTokenizer
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()
            torch.set_num_threads(free_cores())
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            self.model = model.to("cuda" if torch.cuda.is_available() else "cpu")
            self.engine: Any = LLGuidanceBackend(outlines.from_transformers(self.model, self.tokenizer))
        except (ImportError, OSError, ValueError) as problem:
            raise ModelError(f"transformers could not load {self.name}: {problem}", None) from problem
        self.forget()
        check_constraints(self)
        self.totals = dict.fromkeys(self.totals, 0)

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        if self.model is None:
            raise ModelError(f"{self.name} has not been started", None)
        for index, request in enumerate(requests):
            began = time.perf_counter()
            try:
                answer = self.respond(request, began)
            except Exception as problem:  # a template, a schema, the memory: the other requests go on
                self.forget()
                answer = Answer.failed(f"{type(problem).__name__}: {problem}", 0, time.perf_counter() - began)
            self.count(answer)
            yield index, answer

    def respond(self, request: Request, began: float) -> Answer:
        import torch
        from llguidance import LLMatcher

        text = self.tokenizer.apply_chat_template(
            harmless(request.messages, special_tokens(self.tokenizer)),
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        prompt = self.tokenizer.encode(text, add_special_tokens=False)
        if len(prompt) >= self.context:
            return Answer.failed(
                f"the prompt has {len(prompt)} tokens, the context {self.context}", len(prompt)
            )
        sampling = request.sampling
        most = min(sampling.max_tokens, self.context - len(prompt))
        options: dict[str, Any] = {"max_new_tokens": most, "do_sample": sampling.temperature > 0}
        if sampling.temperature > 0:
            torch.manual_seed(sampling.seed)
            options |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        if request.schema is not None:
            processor = self.engine.get_json_schema_logits_processor(
                json.dumps({**request.schema, "x-guidance": COMPACT})
            )
            # Outlines only warns of a schema that llguidance refuses, and then decodes nothing.
            if refused := LLMatcher.validate_grammar(processor.grammar, self.engine.llg_tokenizer):
                raise ValueError(f"the schema is refused: {refused}")
            options["logits_processor"] = [processor]
        cached = self.keep_common(prompt)
        ids = torch.tensor([prompt], device=self.model.device)
        with torch.inference_mode():
            self.read_chunks(prompt, ids)
            output = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), past_key_values=self.cache, **options
            )
        answer = output[0, len(prompt) :].tolist()
        ended = bool(answer) and answer[-1] in self.ends()
        return Answer(
            text=self.tokenizer.decode(answer, skip_special_tokens=True),
            prompt_tokens=len(prompt),
            completion_tokens=len(answer),
            cached_tokens=cached,
            finish_reason="stop" if ended else "length",
            seconds=time.perf_counter() - began,
        )

    def ends(self) -> list[int]:
        ids = self.model.generation_config.eos_token_id
        return ids if isinstance(ids, list) else [ids]

    def keep_common(self, prompt: list[int]) -> int:
        """Cuts the kept keys and values to the whole chunks that this prompt shares with the last one."""
        shared = 0
        while shared < len(self.held) and self.held[: shared + CHUNK] == prompt[: shared + CHUNK]:
            shared += CHUNK
        # One token at least is computed anew, since its output is needed.
        shared = min(shared, (len(prompt) - 1) // CHUNK * CHUNK)
        if shared == 0:
            self.forget()
        else:
            self.cache.crop(shared)
            self.held = prompt[:shared]
        return shared

    def read_chunks(self, prompt: list[int], ids: Any) -> None:
        """Computes the prompt's whole chunks. Their borders are fixed, so that rounding, and with it the answer
        to a seed, is the same whether a chunk was kept or is computed."""
        for start in range(len(self.held), (len(prompt) - 1) // CHUNK * CHUNK, CHUNK):
            self.model(ids[:, start : start + CHUNK], past_key_values=self.cache, logits_to_keep=1)
            self.held = prompt[: start + CHUNK]

    def forget(self) -> None:
        from transformers import DynamicCache

        self.held: list[int] = []
        self.cache: Any = DynamicCache(config=self.model.config)

    def count(self, answer: Answer) -> None:
        self.totals["requests"] += 1
        if answer.finish_reason == "error":
            self.totals["errors"] += 1
            return
        self.totals["prompt_tokens"] += answer.prompt_tokens
        self.totals["computed_prompt_tokens"] += answer.prompt_tokens - answer.cached_tokens
        self.totals["generated_tokens"] += answer.completion_tokens

    def metrics(self) -> dict[str, float]:
        asked, computed = self.totals["prompt_tokens"], self.totals["computed_prompt_tokens"]
        return {**self.totals, "prefix_cache_queries": asked, "prefix_cache_hits": asked - computed}

    def close(self) -> None:
        self.model = self.engine = self.cache = None
