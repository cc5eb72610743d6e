"""What a world is: tasks, tools over a state, a user who wants something, and a verdict on the final state.

    world.system                    the policy text that the agent is shown
    world.tools                     OpenAI-style function schemas
    task = world.task(split, n)     the n-th task of an unlimited, seeded sequence; splits are disjoint
    session = world.reset(task)     a state of its own (forked, never shared)
    session.step(Call(...))         -> Observation(text, status); errors are observations
    session.measure()               -> signals of the trajectory ("verified", "db_hash", ...)

    user = users.open(task, rng)    a conversation partner with a goal
    user.first()                    -> UserTurn("hi , please cancel #W12", done=False)
    user.reply("agent text")        -> UserTurn(text, done)

Failures of the machinery (a dead database, a timeout of the user's model) raise `InfraFailure`; they end the trajectory
as *failed*, which is left out of every statistic. They are never an observation and never a reward of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from rlspec.runtime.secrets import redacted

Status = Literal["ok", "error"]


class InfraFailure(Exception):
    """The machinery failed, not the agent. `part` names who ("env", "user", "judge")."""

    def __init__(self, part: str, reason: str) -> None:
        reason = redacted(reason)
        super().__init__(f"{part}: {reason}")
        self.part, self.reason = part, reason

    def __reduce__(self) -> tuple[type[InfraFailure], tuple[str, str]]:
        return type(self), (self.part, self.reason)


class Unusable(InfraFailure):
    """Somebody answered, and not with what was asked for."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the agent wrote it, arguments already parsed from JSON."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent sees of a call. `status` is typed, so nobody has to search the text for "error".
    `wrote` tells that the state was changed, `ends` that the conversation is over (handed to a human, say)."""

    text: str
    status: Status
    wrote: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user says; `done` ends the conversation after it."""

    text: str
    done: bool


@dataclass(frozen=True, slots=True)
class Task:
    """One problem. `id` is unique over all splits; `gold` are the calls that solve it; `payload` is the world's own.
    `tools` are schemas of the task's own, where they differ from task to task."""

    id: str
    split: str
    instruction: str
    gold: tuple[Call, ...]
    payload: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the dialogue, as judges and people read it. Agent messages have a `call`, or text, or `malformed`
    (the reason why an attempted call could not be parsed)."""

    role: Literal["user", "agent", "tool"]
    text: str
    call: Call | None = None
    status: Status | None = None
    wrote: bool = False
    malformed: str | None = None


def answer_to(dialogue: Sequence[Message], place: int) -> Message:
    """Who tells how a call went: the tool's message behind it, or the call's own where nothing follows."""
    behind = dialogue[place + 1] if place + 1 < len(dialogue) else None
    return behind if behind is not None and behind.role == "tool" else dialogue[place]


class Session(Protocol):
    """The state of one trajectory."""

    def step(self, call: Call) -> Observation:
        """Run a call: what the agent is shown of it. A mistake of the agent is an observation, with nothing changed.

        Raises:
            InfraFailure: the world itself failed, which is no fault of the agent.
        """

    def fork(self) -> Session:
        """A copy that goes on from here by itself."""

    def measure(self) -> dict[str, Any]:
        """The signals that the environment's component declares, by name. Raises InfraFailure."""

    def close(self) -> None:
        """Give back what it holds."""


@runtime_checkable
class Hearing(Protocol):
    """A session whose verdict also depends on what the agent says to its user, and on whether the conversation was cut
    off at a limit."""

    def hear(self, agent_text: str) -> None:
        """The agent said this to its user."""

    def cut(self) -> None:
        """The conversation was cut off at a limit."""


class World(Protocol):
    """An environment. Deterministic: everything random comes from the task."""

    @property
    def system(self) -> str:
        """What every agent is told before the user speaks."""

    @property
    def tools(self) -> Sequence[dict[str, Any]]:
        """Schemas of the tools, as OpenAI's API takes them."""

    def task(self, split: str, number: int) -> Task:
        """The `number`-th problem of a split, the same one for ever.

        Raises:
            ValueError: there is no such split or number.
        """

    def reset(self, task: Task) -> Session:
        """A new session at the beginning of a task. Raises InfraFailure."""


class UserSession(Protocol):
    """One user in one conversation; `measure` gives the signals that the user's component declares."""

    def first(self) -> UserTurn:
        """What it begins with. Raises InfraFailure."""

    def reply(self, agent_text: str) -> UserTurn:
        """What it answers. Raises InfraFailure."""

    def measure(self) -> dict[str, Any]:
        """The signals so far, by name."""


@runtime_checkable
class Recalling(Protocol):
    """A user that would not say the same again if the talk were played again, or only for money: it is told what it
    said. `lines` are its own words so far, as it remembers them (a thought that the agent was not shown is among
    them)."""

    def recall(self, agent_text: str | None, line: str) -> None:
        """It said `line` when the agent said `agent_text`, None before the agent's first message."""

    def lines(self) -> list[str]:
        """Its own words so far."""


class Users(Protocol):
    """A user simulator. All its randomness comes from `rng`. `phrasing` chooses among the wordings that training may
    use and those held out for evaluation."""

    def open(self, task: Task, rng: np.random.Generator, phrasing: str = "train") -> UserSession:
        """A user with the wish of a task."""


class Judge(Protocol):
    """Judges a finished dialogue: each measure that its component declares, by name. A measure of turns is a list with
    one entry per agent message, a measure of the trajectory is a number or a text."""

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, Any]:
        """The measures of a dialogue, by name.

        Raises:
            InfraFailure: the judge failed; `Unusable` where it answered with something that is no verdict.
        """


def is_slow(part: World | Users | Judge | None) -> bool:
    """Whether a world, a user or a judge is to be asked on a thread of its own: it says `slow = True`, and `at_once`,
    how many of its answers may be waited for at a time. Its sessions are each asked by one thread at a time."""
    return bool(getattr(part, "slow", False))
