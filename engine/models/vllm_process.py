"""The child process around vLLM's engine: JSON lines in, JSON lines out, everything else into the log file.

In: settings first; then {id, messages, schema, sampling}, {abort: [ids]}, {metrics}, {reset}. Out: {ready} or
{fatal}; then {id, answer} and {metrics}. A closed input ends the process at once, at any moment.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .markup import harmless, special_tokens


def main(log: str) -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    inbox: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=listen, args=(inbox,), daemon=True).start()

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")

    try:
        serving = Serving(inbox.get(), tell)
    except BaseException as problem:
        import traceback

        traceback.print_exc()
        tell({"fatal": f"{type(problem).__name__}: {problem}"[:1000]})
        return
    tell({"ready": True})
    while True:
        while not inbox.empty() or not serving.running:
            serving.obey(inbox.get())
        serving.step()


def listen(inbox: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        inbox.put(json.loads(line))
    os._exit(0)


class Serving:
    """The engine and the requests it is working on."""

    def __init__(self, settings: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        from vllm import EngineArgs
        from vllm.config import StructuredOutputsConfig
        from vllm.v1.engine.llm_engine import LLMEngine

        self.tell = tell
        self.adapter = settings.pop("adapter", None)
        self.context = settings["max_model_len"]
        constraints = StructuredOutputsConfig(backend="guidance", disable_any_whitespace=True)
        arguments = EngineArgs(**settings, enable_prefix_caching=True, structured_outputs_config=constraints)
        self.engine: Any = LLMEngine.from_engine_args(arguments)
        self.tokenizer: Any = self.engine.get_tokenizer()
        self.running: dict[str, float] = {}
        self.totals: dict[str, float] = {}
        self.base: dict[str, float] = {}
        self.reset()

    def obey(self, message: dict[str, Any]) -> None:
        if "id" in message:
            try:
                self.admit(message)
            except Exception as problem:
                self.fail(message["id"], f"{type(problem).__name__}: {problem}")
        elif "abort" in message:
            self.engine.abort_request([str(each) for each in message["abort"]])
            for each in message["abort"]:
                self.running.pop(str(each), None)
        elif "metrics" in message:
            self.tell(
                {"metrics": self.totals | {k: v - self.base[k] for k, v in self.prefix_cache().items()}}
            )
        elif "reset" in message:
            self.reset()

    def admit(self, message: dict[str, Any]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        # Thinking is switched off where a template knows it: the schema governs from the first token.
        text = self.tokenizer.apply_chat_template(
            harmless(message["messages"], special_tokens(self.tokenizer)),
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        prompt = self.tokenizer.encode(text, add_special_tokens=False)
        if len(prompt) >= self.context:
            self.fail(
                message["id"], f"the prompt has {len(prompt)} tokens, the context {self.context}", len(prompt)
            )
            return
        asked, schema = message["sampling"], message["schema"]
        sampling = SamplingParams(
            max_tokens=min(asked["max_tokens"], self.context - len(prompt)),
            temperature=asked["temperature"],
            top_p=asked["top_p"],
            seed=asked["seed"] if asked["temperature"] > 0 else None,
            ignore_eos=asked.get("ignore_eos", False),  # benchmarks compare equal lengths
            structured_outputs=StructuredOutputsParams(json=schema) if schema is not None else None,
        )
        name = str(message["id"])
        self.engine.add_request(name, {"prompt_token_ids": prompt}, sampling, lora_request=self.lora())
        self.running[name] = time.perf_counter()

    def lora(self) -> Any:
        if self.adapter is None:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest("adapter", 1, self.adapter)

    def step(self) -> None:
        for output in self.engine.step():
            if not output.finished or output.request_id not in self.running:
                continue
            seconds = time.perf_counter() - self.running.pop(output.request_id)
            [completion] = output.outputs
            prompt, cached = len(output.prompt_token_ids), output.num_cached_tokens or 0
            reason = completion.finish_reason
            served = reason in ("stop", "length")
            self.count(prompt, prompt - cached, len(completion.token_ids), not served)
            answer = {
                "text": completion.text if served else "",
                "prompt_tokens": prompt,
                "completion_tokens": len(completion.token_ids),
                "cached_tokens": cached,
                "finish_reason": reason if served else "error",
                "seconds": seconds,
                "error": None if served else f"vLLM ended the request: {reason}",
            }
            self.tell({"id": int(output.request_id), "answer": answer})

    def fail(self, id: int, error: str, prompt: int = 0) -> None:
        self.count(0, 0, 0, True)
        counts = {"prompt_tokens": prompt, "completion_tokens": 0, "cached_tokens": 0, "seconds": 0.0}
        self.tell({"id": id, "answer": {"text": "", "finish_reason": "error", "error": error, **counts}})

    def count(self, prompt: int, computed: int, generated: int, failed: bool) -> None:
        self.totals["requests"] += 1
        self.totals["errors"] += failed
        self.totals["prompt_tokens"] += prompt
        self.totals["computed_prompt_tokens"] += computed
        self.totals["generated_tokens"] += generated

    def prefix_cache(self) -> dict[str, float]:
        """vLLM's own counters, in tokens, over the engine's life."""
        values = {metric.name: getattr(metric, "value", 0) for metric in self.engine.get_metrics()}
        return {name: values.get(f"vllm:{name}", 0) for name in ("prefix_cache_queries", "prefix_cache_hits")}

    def reset(self) -> None:
        names = ("requests", "errors", "prompt_tokens", "computed_prompt_tokens", "generated_tokens")
        self.totals = dict.fromkeys(names, 0)
        self.base = self.prefix_cache()


if __name__ == "__main__":
    main(sys.argv[1])
