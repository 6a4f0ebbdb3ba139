"""Scripted episodes: a good agent, or one that makes declared faults, with a scripted user.

The gold agent performs a task's expected actions as a good agent would: it asks who the user is, reads, says
what it will do and waits for a yes; what only the user can do, it asks them to do. The noisy agent is the gold
one with faults at a given rate; each fault is recorded beside the trajectory, so that the truth is known.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...specs import Domain
from ...specs.tasks import Fault
from ..hashing import key
from ..trajectories import Message, Outcome, ToolCall, Trajectory
from ..trajectories.trajectory import Actor
from .environment import Environment, StepResult, clock_values, names, render, sql_values
from .image import Image
from .tasks import Call, Task, filled
from .values import as_json

STOP = "###STOP###"

_ASKS = (
    "I can help with that. Could you tell me your {topics}, please?",
    "Happy to help. May I have your {topics} first?",
    "Of course. To find your record I need your {topics}.",
)
_TELLS = ("Sure, {facts}.", "Yes: {facts}.", "Here you go: {facts}.")
_LACKS = ("I do not know my {topics}.", "I am sorry, I do not have my {topics}.")
_REQUESTS = (
    "Could you do something for me, please: {action}. What do you see then?",
    "This one is in your hands. Please {action}, and tell me what you see.",
)
_SEES = ("I have done that. It says: {result}", "Done. What I see: {result}", "Okay, now there is: {result}")
_PROPOSES = (
    "I will do the following: {action}. Do you confirm (yes/no)?",
    "Here is what I am about to do: {action}. Shall I go ahead (yes/no)?",
    "Before I change anything: {action}. Is that right (yes/no)?",
)
_AGREES = ("Yes, please go ahead.", "Yes, that's right.", "Yes, I confirm.")
_DECLINES = ("No, leave it as it is.", "No, please don't.", "No, I have changed my mind.")
_REPORTS = ("That is done: {action}.", "All set: {action}.", "Done: {action}.")
_LEAVES = ("Understood, I have changed nothing.", "All right, nothing has been changed.")
_THANKS = ("Thank you, that was all. " + STOP, "Great, thanks! " + STOP, "That's everything. " + STOP)


@dataclass(slots=True)
class Planted:
    """A fault in an episode: the action at (step, call) is wrong by construction.

    `call` None: something is missing there.
    """

    fault: str
    error: str
    step: int
    call: int | None
    tool: str | None
    right: dict[str, Any] | None


@dataclass(slots=True)
class Episode:
    """A conversation in the making, in an environment of its own."""

    task: Task
    environment: Environment
    chance: random.Random
    messages: list[Message] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)

    def say(self, role: Any, text: str) -> None:
        self.messages.append(Message(role=role, content=text))

    def choose(self, texts: Sequence[str], **names: str) -> str:
        return self.chance.choice(texts).format(**names)

    def call(self, call: Call, actor: Actor = "agent") -> StepResult:
        step = len(self.messages)
        raw = as_json(call.arguments)
        made = ToolCall(id=f"call_{step}", name=call.tool, arguments=call.arguments, raw=raw)
        self.messages.append(Message(role="user" if actor == "user" else "assistant", calls=(made,)))
        result = self.environment.step(call.tool, call.arguments)
        self.messages.append(Message(role="tool", content=result.text, answers=(step, 0), actor=actor))
        self.results.append(result)
        return result


def system_text(domain: Domain) -> str:
    """The policy as an agent reads it: what the domain is for, then every clause."""
    clauses = "\n".join(f"- {clause.text}" for clause in domain.policies)
    return f"# {domain.title or domain.name}\n\n{domain.description}\n\n{clauses}".strip()


def play(
    domain: Domain, image: Image, task: Task, *, trial: int = 0, seed: int = 0, fault_rate: float = 0.0
) -> Trajectory:
    """One scripted episode as a trajectory with its outcome.

    `fault_rate` is the chance that an expected action is spoilt by one of the domain's faults that fit it.
    """
    chance = random.Random(f"{seed}/{task.task_id}/{trial}/{fault_rate}")
    environment = Environment(domain, image, chance.getrandbits(32))
    try:
        episode = Episode(task, environment, chance)
        ended_by_call = _converse(domain, episode, fault_rate)
        reached = environment.hash()
        expected = expected_hash(domain, image, task)
        said = " ".join(m.content for m in episode.messages if m.role == "assistant" and not m.calls)
        reward = float(reached == expected and all(text in said for text in task.says))
    finally:
        environment.close()
    kind = "noisy" if fault_rate else "gold"
    return Trajectory(
        trajectory_id=key(domain.hash, task.task_id, trial, seed, kind, fault_rate, as_json(image.counts)),
        domain=domain.name,
        source="simulate",
        policy=kind,
        task_id=task.task_id,
        trial=trial,
        reward=reward,
        ending="transfer" if ended_by_call else "user_stop",
        messages=tuple(episode.messages),
        outcome=Outcome(
            scenario=task.scenario,
            expected_actions=tuple(
                {"name": c.tool, "arguments": c.arguments} for c in expected_actions(task)
            ),
            expected_outputs=task.says,
            checks={"faults": [_as_dict(planted) for planted in episode.planted]}
            if episode.planted
            else None,
        ),
    )


def expected_actions(task: Task) -> tuple[Call, ...]:
    """The write actions that are to happen: none where the user declines them when asked."""
    return () if task.declines else task.actions


def expected_hash(domain: Domain, image: Image, task: Task) -> str:
    """The state that the expected actions lead to."""
    calls = expected_actions(task)
    asked = key(domain.hash, [[call.tool, call.arguments] for call in calls])
    if asked not in image.reached:
        environment = Environment(domain, image)
        try:
            for call in calls:
                environment.step(call.tool, call.arguments)
            image.reached[asked] = environment.hash()
        finally:
            environment.close()
    return image.reached[asked]


def _converse(domain: Domain, episode: Episode, fault_rate: float) -> bool:
    task = episode.task
    episode.say("system", system_text(domain))
    episode.say("user", task.opens)
    untold = {topic: value for topic, value in task.knows.items() if value not in task.opens}
    plan = _plan(domain, episode, fault_rate)
    if (untold and plan.reads) or task.lacks:
        topics = _listed([topic.replace("_", " ") for topic in (*task.lacks, *untold)])
        episode.say("assistant", episode.choose(_ASKS, topics=topics))
        lacking = " or ".join(topic.replace("_", " ") for topic in task.lacks)
        facts = ", ".join(f"my {topic.replace('_', ' ')} is {value}" for topic, value in untold.items())
        answers = [episode.choose(_LACKS, topics=lacking)] if lacking else []
        answers += [episode.choose(_TELLS, facts=facts)] if facts else []
        episode.say("user", " ".join(answers))
    for read in plan.reads:
        if _is_the_users(domain, read):
            _request(domain, episode, read)
        else:
            episode.call(read)
    reports = _act(domain, episode, plan)
    if task.ends is not None:
        episode.call(task.ends)
        return True
    closing = [*reports, *([task.answer] if task.answer else [])]
    closing += [text for text in task.says if text not in " ".join(closing)]
    if plan.omitted is not None:
        episode.planted.append(
            Planted(plan.omitted.id, plan.omitted.error, len(episode.messages), None, None, None)
        )
    episode.say("assistant", " ".join(closing) or "Is there anything else I can do for you?")
    episode.say("user", episode.choose(_THANKS))
    return False


@dataclass(slots=True)
class _Plan:
    reads: tuple[Call, ...]
    actions: list[tuple[Call, Fault | None]]
    omitted: Fault | None = None


def _plan(domain: Domain, episode: Episode, fault_rate: float) -> _Plan:
    """The task's reads and actions, some of them with a fault to make."""
    reads = episode.task.reads
    actions: list[tuple[Call, Fault | None]] = []
    omitted: Fault | None = None
    unread: Fault | None = None
    for action in episode.task.actions:
        fitting = [fault for fault in domain.faults if fault.tool in (None, action.tool)]
        if _is_the_users(domain, action):
            # The agent only asks for it, so what it can do wrong is not to ask.
            fitting = [fault for fault in fitting if fault.drop == "action" or fault.instead is not None]
        if episode.task.declines:
            # Nothing is to be done, so the one thing to do wrong is to do it unasked.
            fitting = [fault for fault in fitting if fault.drop == "confirmation"]
        fault = episode.chance.choice(fitting) if fitting and episode.chance.random() < fault_rate else None
        if fault is not None and fault.drop == "action":
            omitted = fault
            if episode.task.ordered:
                # What comes after it may depend on it.
                break
            continue
        if fault is not None and fault.drop == "reads" and len(episode.task.reads) > 1:
            reads, unread = reads[:1], fault
        if fault is not None and fault.drop == "authentication":
            # A look-up without knowing for whom would be wrong as well, and before the action that is marked.
            reads, unread = (), fault
        actions.append((action, None if fault is not None and fault.drop == "reads" else fault))
    if unread is not None:
        # Whatever is done in this conversation lacks what was left out.
        actions = [(action, unread) for action, _ in actions]
    return _Plan(reads, actions, omitted)


def _act(domain: Domain, episode: Episode, plan: _Plan) -> list[str]:
    """Propose, wait for a yes and act, once for each action; what there is to report at the end."""
    reports = []
    for right, fault in plan.actions:
        action = right if fault is None else _spoilt(domain, episode, right, fault)
        if fault is not None and fault.drop is None and not fault.repeat and action == right:
            # The fault finds no other value here, so there is none.
            fault = None
        if _is_the_users(domain, action):
            _request(domain, episode, action)
            continue
        if fault is None or fault.drop != "confirmation":
            episode.say("assistant", episode.choose(_PROPOSES, action=_told(domain, right, "confirm")))
            if episode.task.declines:
                episode.say("user", episode.choose(_DECLINES))
                reports.append(episode.choose(_LEAVES))
                continue
            episode.say("user", episode.choose(_AGREES))
        if fault is not None and fault.repeat:
            episode.call(action)
        if fault is not None:
            step = len(episode.messages)
            episode.planted.append(Planted(fault.id, fault.error, step, 0, action.tool, right.arguments))
        episode.call(action)
        reports.append(episode.choose(_REPORTS, action=_told(domain, action, "report")))
    return reports


def _is_the_users(domain: Domain, call: Call) -> bool:
    tool = domain.tool(call.tool)
    return tool is not None and tool.actor == "user"


def _request(domain: Domain, episode: Episode, call: Call) -> None:
    """What only the user can do, they are asked to, and tell what came of it."""
    episode.say("assistant", episode.choose(_REQUESTS, action=_told(domain, call, "confirm")))
    result = episode.call(call, "user")
    episode.say("user", episode.choose(_SEES, result=result.text))


def _spoilt(domain: Domain, episode: Episode, right: Call, fault: Fault) -> Call:
    """The right call with the fault in it; unchanged where the fault is elsewhere, or finds no other value."""
    tool = domain.tool(right.tool)
    if fault.instead is not None:
        known = right.arguments if tool is None else names(tool, right.arguments)
        return Call(fault.instead.tool, {n: filled(v, known) for n, v in fault.instead.arguments.items()})
    if fault.argument is None or fault.with_ is None or tool is None:
        return right
    values = sql_values(tool, right.arguments) | clock_values(domain)
    row = episode.environment.world.first(fault.with_, values)
    if row is None:
        return right
    value = next(iter(row.values()))
    kind = tool.parameters["properties"].get(fault.argument, {}).get("type")
    if kind in ("array", "object") and isinstance(value, str):
        value = json.loads(value)
    if kind == "boolean" and value in (0, 1):
        value = bool(value)
    return Call(right.tool, {**right.arguments, fault.argument: value})


def _told(domain: Domain, call: Call, how: str) -> str:
    """The call in words: the tool's own template, or its name and arguments."""
    tool = domain.tool(call.tool)
    text = getattr(tool.simulate, how) if tool is not None and tool.simulate is not None else None
    if tool is not None and text is not None:
        return render(text, names(tool, call.arguments))
    named = ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in call.arguments.items())
    return f"{call.tool.replace('_', ' ')} ({named})" if named else call.tool.replace("_", " ")


def _listed(things: Sequence[str]) -> str:
    *first, last = things
    return f"{', '.join(first)} and {last}" if first else last


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def _as_dict(planted: Planted) -> dict[str, Any]:
    return {name: getattr(planted, name) for name in Planted.__slots__}
