"""Replaying recorded runs: does the domain's simulation give the recorded results and the recorded reward?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...specs import Domain
from ..evidence import structure
from ..trajectories import Trajectory
from .environment import Environment, StepResult
from .image import Image
from .values import same

TOLERATED_REWARD = 1e-6


@dataclass(frozen=True, slots=True)
class Difference:
    """A recorded call whose replay gave another result. `first`: nothing differed earlier in its run."""

    trajectory_id: str
    task_id: str | None
    trial: int | None
    step: int
    tool: str
    arguments: dict[str, Any] | None
    recorded: str
    replayed: str
    first: bool


@dataclass(slots=True)
class Replay:
    """Counts over all runs; `tools` maps a tool to [calls, matched]."""

    calls: int = 0
    matched: int = 0
    renamed: int = 0
    """Of the matched ones, those that match only because a field has another name now."""
    runs: int = 0
    evaluated: int = 0
    rewards_agree: int = 0
    tools: dict[str, list[int]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    disagreements: list[dict[str, Any]] = field(default_factory=list)
    quarantined: dict[str, str] = field(default_factory=dict)


def replay(domain: Domain, image: Image, trajectories: Iterable[Trajectory]) -> Replay:
    """Perform every recorded call of every trajectory, and derive each outcome anew from the expected actions."""
    found = Replay()
    environment = Environment(domain, image)
    for trajectory in trajectories:
        found.runs += 1
        environment.restore(image.data)
        _replay_calls(environment, trajectory, found)
        _derive(environment, trajectory, found)
    environment.close()
    return found


def _replay_calls(environment: Environment, trajectory: Trajectory, found: Replay) -> None:
    first = True
    for message in trajectory.messages:
        if message.answers is None:
            continue
        step, position = message.answers
        call = trajectory.messages[step].calls[position]
        given = perform(environment, call.name, call.arguments)
        counts = found.tools.setdefault(call.name, [0, 0])
        counts[0] += 1
        found.calls += 1
        if same_result(message.content, given.text, environment.domain.renamed):
            counts[1] += 1
            found.matched += 1
            found.renamed += not same_result(message.content, given.text)
            continue
        found.differences.append(
            Difference(
                trajectory_id=trajectory.trajectory_id,
                task_id=trajectory.task_id,
                trial=trajectory.trial,
                step=step,
                tool=call.name,
                arguments=call.arguments,
                recorded=message.content,
                replayed=given.text,
                first=first,
            )
        )
        first = False


def perform(environment: Environment, tool: str, arguments: dict[str, Any] | None) -> StepResult:
    """A recorded call. One whose arguments could not be read is never run.

    Models write null for an argument that they leave out, and the tools that answered them took it so.
    """
    if arguments is None:
        return StepResult("Error: the arguments cannot be read", "schema")
    declared = environment.domain.tool(tool)
    required = declared.parameters["required"] if declared is not None else ()
    given = {name: value for name, value in arguments.items() if value is not None or name in required}
    return environment.step(tool, given)


def same_result(recorded: str, replayed: str, renamed: Mapping[str, str] | None = None) -> bool:
    """Equal as JSON where both are JSON objects or lists, else equal as text; numbers within a millionth.

    `renamed` maps a field's name to the one it had: both are read as the one it has.
    """
    left, right = structure(recorded), structure(replayed)
    if renamed:
        former = {then: now for now, then in renamed.items()}
        left, right = _current(left, former), _current(right, former)
    if left is not None and right is not None:
        return same(left, right)
    if recorded.strip() == replayed.strip():
        return True
    try:
        return same(float(recorded), float(replayed))
    except ValueError:
        return False


def _current(value: Any, former: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {former.get(name, name): _current(item, former) for name, item in value.items()}
    if isinstance(value, list):
        return [_current(item, former) for item in value]
    return value


def _derive(environment: Environment, trajectory: Trajectory, found: Replay) -> None:
    """The reward again: the end state against that of the expected actions, and what had to be said."""
    outcome = trajectory.outcome
    if (
        trajectory.reward is None
        or outcome.expected_actions is None
        or trajectory.ending in ("step_cap", "crash")
    ):
        return
    found.evaluated += 1
    reached = environment.hash()
    environment.restore(environment.image.data)
    for action in outcome.expected_actions:
        tool = environment.domain.tool(action["name"])
        given = perform(environment, action["name"], action["arguments"])
        if not given.ok and (tool is None or tool.effect in ("write", "irreversible")):
            reason = f"the expected {action['name']} fails: {given.text}"
            found.quarantined.setdefault(str(trajectory.task_id), reason)
    said = " ".join(
        message.content.lower().replace(",", "")
        for message in trajectory.messages
        if message.role == "assistant" and not message.calls
    )
    missing = [
        output for output in outcome.expected_outputs or () if output.lower().replace(",", "") not in said
    ]
    derived = float(reached == environment.hash() and not missing)
    if abs(derived - trajectory.reward) <= TOLERATED_REWARD:
        found.rewards_agree += 1
        return
    found.disagreements.append(
        {
            "trajectory_id": trajectory.trajectory_id,
            "task_id": trajectory.task_id,
            "trial": trajectory.trial,
            "recorded": trajectory.reward,
            "derived": derived,
            "missing_outputs": missing,
        }
    )
