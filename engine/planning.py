"""What a critique run would do: for each chosen action its prompt, its key, and whether the store has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb

from ..specs import Domain
from .hashing import key
from .models import Model, Request, Sampling
from .rationales import Prompt, TooLong, prompt
from .selection import ActionRef
from .trajectories import MESSAGES, Outcome, Trajectory
from .views import Sight, StepView

ATTEMPTS = 2
"""One resample on failure, then the failure is stored."""

RESAMPLE_TEMPERATURE = 0.7
"""Greedy decoding would only repeat the failure."""

State = Literal["done", "failed", "parse", "generate", "too_long"]


@dataclass(frozen=True, slots=True)
class Planned:
    """One action's critique. `parse`: a raw answer is stored and only has to be read; `failed`: the store
    holds a failure, which is not tried again unasked.

    `stale` says that another critique of the action by this role and model is stored, of a prompt that has
    changed since. `detail` says why no prompt fits the model, which asking again would not change.
    """

    ref: ActionRef
    key: str
    critique_id: str
    state: State
    stale: bool
    prompt_tokens: int
    detail: str | None = None


class Prompter:
    """Builds the prompts of one role for one model; a trajectory is loaded once while its steps pass by."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, domain: Domain, role: str, model: Model, seed: int = 0
    ) -> None:
        self.connection = connection
        self.domain = domain
        self.role = role
        self.model = model
        self.seed = seed
        self._sight: Sight | None = None
        self._counts: dict[str, int] = {}

    def view(self, ref: ActionRef) -> StepView:
        if self._sight is None or self._sight.trajectory.trajectory_id != ref.trajectory_id:
            self._sight = Sight(load(self.connection, ref.trajectory_id), self.domain, self.role)
            self._counts.clear()
        return self._sight.view(ref.step, ref.call)

    def prompt(self, view: StepView) -> Prompt:
        """Raises `TooLong`."""
        return prompt(view, context=self.model.context, count_tokens=self.count_tokens)

    def request(self, prompt: Prompt, attempt: int = 1) -> Request:
        greedy = attempt == 1
        sampling = Sampling(
            max_tokens=prompt.max_tokens,
            temperature=0.0 if greedy else RESAMPLE_TEMPERATURE,
            seed=self.seed + attempt - 1,
        )
        return Request(prompt.messages, prompt.schema, sampling)

    def count_tokens(self, text: str) -> int:
        """The model's count, remembered: the steps of a trajectory share their messages."""
        if text not in self._counts:
            self._counts[text] = self.model.count_tokens(text)
        return self._counts[text]


def load(connection: duckdb.DuckDBPyConnection, trajectory_id: str) -> Trajectory:
    """The trajectory from the store. Raises `LookupError` if it is not there."""
    row = connection.execute(
        "SELECT domain, source, policy, task_id, trial, reward, ending, messages, outcome, defects "
        "FROM store.trajectories WHERE trajectory_id = ?",
        [trajectory_id],
    ).fetchone()
    if row is None:
        raise LookupError(f"no trajectory {trajectory_id}")
    domain, source, policy, task_id, trial, reward, ending, messages, outcome, defects = row
    return Trajectory(
        trajectory_id=trajectory_id,
        domain=domain,
        source=source,
        policy=policy,
        task_id=task_id,
        trial=trial,
        reward=reward,
        ending=ending,
        messages=MESSAGES.validate_json(messages),
        outcome=Outcome.model_validate_json(outcome),
        defects=tuple(defects),
    )


def generation_key(request: Request, model: Model) -> str:
    """The key of a raw answer: all that decides it, and nothing else.

    The schema goes in as its bytes, since the order of its properties is the order of generation.
    """
    sampling = request.sampling
    return key(
        list(request.messages),
        json.dumps(request.schema, separators=(",", ":")).encode(),
        model.revision,
        [sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.seed],
    )


def plan(prompter: Prompter, refs: Sequence[ActionRef]) -> Iterator[Planned]:
    """What there is to do for each action, in order. Reads the store, starts no model."""
    known = _known(prompter, refs)
    for ref in refs:
        view = prompter.view(ref)
        try:
            built = prompter.prompt(view)
        except TooLong as error:
            yield _too_long(prompter, ref, str(error), known)
            continue
        generation = generation_key(prompter.request(built), prompter.model)
        identity = key(generation, ref.trajectory_id, ref.step, ref.call, prompter.role, prompter.model.name)
        critiques = known.critiques.get(ref, {})
        yield Planned(
            ref=ref,
            key=generation,
            critique_id=identity,
            state=_state(known, critiques.get(identity), generation),
            stale=bool(critiques.keys() - {identity}),
            prompt_tokens=built.tokens,
        )


@dataclass(frozen=True, slots=True)
class _Known:
    critiques: dict[ActionRef, dict[str, str]]
    """By action: critique id to status, of this role and model."""
    generations: set[str]
    """Keys of the raw answers."""


def _known(prompter: Prompter, refs: Iterable[ActionRef]) -> _Known:
    wanted = set(refs)
    critiques: dict[ActionRef, dict[str, str]] = {}
    rows = prompter.connection.execute(
        "SELECT trajectory_id, step, call, critique_id, status FROM store.critiques "
        "WHERE role = ? AND model = ?",
        [prompter.role, prompter.model.name],
    ).fetchall()
    for trajectory_id, step, call, identity, status in rows:
        ref = ActionRef(trajectory_id, step, call)
        if ref in wanted:
            critiques.setdefault(ref, {})[identity] = status
    generations = prompter.connection.execute("SELECT DISTINCT key FROM store.generations").fetchall()
    return _Known(critiques, {generation for (generation,) in generations})


def _state(known: _Known, stored: str | None, generation: str) -> State:
    if stored is not None:
        return "done" if stored == "ok" else "failed"
    return "parse" if generation in known.generations else "generate"


def _too_long(prompter: Prompter, ref: ActionRef, detail: str, known: _Known) -> Planned:
    identity = key(
        "too_long",
        prompter.domain.hash,
        prompter.model.revision,
        [ref.trajectory_id, ref.step, ref.call, prompter.role, prompter.model.name],
    )
    stored = identity in known.critiques.get(ref, {})
    return Planned(ref, identity, identity, "failed" if stored else "too_long", False, 0, detail)
