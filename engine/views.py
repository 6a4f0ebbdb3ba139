"""Partial observability as a type: what a role may see before an action, and nothing else.

A prompt is rendered from a `StepView` only. The outcome, the expected actions, the user's scenario, later
messages and redacted values are not in it, so no template, a domain's own included, can show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..specs import Clause, Domain, Tool, UserError
from .evidence import as_json, cited_values
from .redaction import called_tool, redact
from .trajectories import Action, Message, Outcome, ToolCall, Trajectory, actions


@dataclass(frozen=True, slots=True)
class VisibleMessage:
    """A message as the role sees it. `pending`: a result that exists but is not visible yet."""

    step: int
    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    answers: tuple[int, int] | None = None
    pending: bool = False


@dataclass(frozen=True)
class StepView:
    """What `role` may see before the action at (`step`, `call`).

    `siblings` are the other calls of the same turn, without their results. `later` and `outcome` are empty
    unless the role sees everything.
    """

    domain: Domain
    role: str
    trajectory_id: str
    step: int
    call: int
    messages: tuple[VisibleMessage, ...]
    action: Action
    siblings: tuple[ToolCall, ...] = ()
    policies: tuple[Clause, ...] = ()
    tools: tuple[Tool, ...] = ()
    scenario: str | None = None
    later: tuple[VisibleMessage, ...] = ()
    outcome: Outcome | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def tool(self) -> Tool | None:
        """The declared tool that the action calls, if the role sees tools and it is declared."""
        return next((tool for tool in self.tools if tool.name == self.action.tool), None)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The visible clauses that govern the action."""
        name = self.action.tool if self.action.kind == "call" else None
        governing = {clause.id for clause in self.domain.clauses_for(name)}
        return tuple(clause for clause in self.policies if clause.id in governing)

    def citable(self, steps: frozenset[int] | None = None) -> dict[str, str]:
        """Evidence id to what it stands for; `steps` limits the messages to those shown in full.

        Clauses and the called tool are citable by their names.
        """
        found: dict[str, str] = {}
        for message in self.messages:
            if not message.pending and (steps is None or message.step in steps):
                found.update(cited_values(message.step, message.role, message.content))
                calls = [call_text(call) for call in message.calls]
                if calls:
                    found[str(message.step)] = "\n".join(filter(None, [message.content, *calls]))
        found.update({clause.id: clause.text for clause in self.clauses})
        if self.tool is not None:
            found[self.tool.name] = self.tool.description
        return found


def call_text(call: ToolCall | Action) -> str:
    """`name {compact arguments}`; arguments that could not be read stand as the model wrote them."""
    name = call.tool if isinstance(call, Action) else call.name
    if call.arguments is None:
        return f"{name} with arguments that cannot be read: {call.raw}"
    return f"{name} {as_json(call.arguments)}"


def view(trajectory: Trajectory, step: int, role: str, domain: Domain, call: int = 0) -> StepView:
    """What `role` may see before the action at (`step`, `call`) of the trajectory; see `Sight.view`."""
    return Sight(trajectory, domain, role).view(step, call)


class Sight:
    """One role's sight of one trajectory: which messages it gets, with what replaced.

    Raises `UserError` for a role that the domain does not know.
    """

    def __init__(self, trajectory: Trajectory, domain: Domain, role: str) -> None:
        if role not in domain.observability.roles:
            raise UserError(
                f"the domain {domain.name} has no role {role!r}",
                f"its roles: {', '.join(domain.observability.roles)}",
            )
        self.trajectory = trajectory
        self.messages = trajectory.messages
        self.domain = domain
        self.role = role
        self.sees = domain.observability.roles[role].sees
        self.own = "user" if role == "user" else "agent"
        self.actions = {(action.step, action.call): action for action in actions(trajectory)}
        self.redacted = redact(trajectory, domain)

    def view(self, step: int, call: int = 0) -> StepView:
        """The view before one action.

        Calls of one turn share everything before the turn; none sees a sibling's result. Raises `LookupError`
        where there is no such action.
        """
        action = self.actions.get((step, call))
        if action is None:
            raise LookupError(
                f"trajectory {self.trajectory.trajectory_id} has no action at step {step}, call {call}"
            )
        everything = "everything" in self.sees
        turn = self.messages[step]
        return StepView(
            domain=self.domain,
            role=self.role,
            trajectory_id=self.trajectory.trajectory_id,
            step=step,
            call=call,
            messages=self.before(step),
            action=self.action(action),
            siblings=tuple(self.tool_call(c) for n, c in enumerate(turn.calls) if n != call),
            policies=self.domain.policies if everything or "policies" in self.sees else (),
            tools=self.domain.tools if everything or "tools" in self.sees else (),
            scenario=self.scenario if everything or "scenario" in self.sees else None,
            later=self.after(step) if everything else (),
            outcome=self.outcome if everything else None,
        )

    @cached_property
    def scenario(self) -> str | None:
        told = self.trajectory.outcome.scenario
        return None if told is None else self.redacted.scrub(told)

    @cached_property
    def outcome(self) -> Outcome:
        return Outcome.model_validate(
            self.redacted.scrub_tree(self.trajectory.outcome.model_dump(mode="json"))
        )

    def before(self, step: int) -> tuple[VisibleMessage, ...]:
        shown = (self.message(at, step) for at in range(step))
        return tuple(message for message in shown if message is not None)

    def after(self, step: int) -> tuple[VisibleMessage, ...]:
        shown = (self.message(at, step) for at in range(step, len(self.messages)))
        return tuple(message for message in shown if message is not None)

    def message(self, at: int, step: int) -> VisibleMessage | None:
        """The message at index `at` as seen before `step`, or None where the role does not see it."""
        message = self.messages[at]
        if message.role == "tool":
            if not self.sees_result(message):
                return None
            pending = "everything" not in self.sees and at + self.delay(message) >= step
            content = "" if pending else self.redacted.texts[at]
            return VisibleMessage(at, "tool", content, answers=message.answers, pending=pending)
        if message.role == "system":
            seen = "policies" in self.sees or "everything" in self.sees
            return VisibleMessage(at, "system", self.redacted.texts[at]) if seen else None
        calls = tuple(self.tool_call(call) for call in message.calls) if self.sees_calls(message) else ()
        speaks = "messages" in self.sees or "everything" in self.sees
        # Text beside a call is the agent's own note: the user never received it.
        content = self.redacted.texts[at] if speaks and (calls or not message.calls) else ""
        if not content and not calls and (message.calls or not speaks):
            return None
        return VisibleMessage(at, message.role, content, calls=calls)

    def sees_result(self, message: Message) -> bool:
        if "everything" in self.sees:
            return True
        wanted = "own_tool_results" if self.own == "user" else "tool_results"
        return wanted in self.sees and (message.actor or "agent") == self.own

    def sees_calls(self, message: Message) -> bool:
        if "everything" in self.sees:
            return True
        caller = "user" if message.role == "user" else "agent"
        wanted = {"own_tool_results"} if self.own == "user" else {"tool_calls", "tool_results"}
        return caller == self.own and bool(wanted & set(self.sees))

    def delay(self, message: Message) -> int:
        name = called_tool(self.messages, message)
        return max((rule.steps for rule in self.domain.observability.delay if rule.tool == name), default=0)

    def tool_call(self, call: ToolCall) -> ToolCall:
        if self.redacted.pattern is None:
            return call
        return call.model_copy(
            update={
                "arguments": self.redacted.scrub_tree(call.arguments),
                "raw": self.redacted.scrub(call.raw),
            }
        )

    def action(self, action: Action) -> Action:
        return Action(
            step=action.step,
            call=action.call,
            kind=action.kind,
            tool=action.tool,
            arguments=self.redacted.scrub_tree(action.arguments),
            raw=None if action.raw is None else self.redacted.scrub(action.raw),
            text=self.redacted.scrub(action.text),
            defect=action.defect,
        )
