"""Recovery: a failed attempt as the beginning of another conversation (Fission-GRPO, arXiv 2601.15625).

The new conversation is shown the attempt as the tokens that were really seen and sampled, then the feedback. Its world
and its user are brought to where the attempt left them by playing it again: both are deterministic, the user by the
random numbers of the attempt's key. A user that is not (a language model) is told what it said, from the record. From
there on the user draws from the new key's numbers, so the conversations of a recovery group differ as those of any
group do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlspec.compiler.catalog.resampling import Resample
from rlspec.runtime.record.ledger import Kind
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.worlds.protocol import Hearing, InfraFailure, Message, Recalling, Session, Task, Users, UserSession

Streams = Callable[[str], np.random.Generator]
"""The user's random numbers of a conversation, by its key."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a recovery begins. `spans` are the tokens that it is shown, `dialogue` the messages that they are;
    `feedback` follows, empty for none. `keys` name the conversations that the user has been in, each with the place in
    the dialogue from which it was: the first from 0. `anew`: the attempt is only shown, world and user begin again.
    `lines` are what a user that is to be told of it said, in its own memory."""

    spans: tuple[tuple[Kind, tuple[int, ...]], ...]
    dialogue: tuple[Message, ...]
    feedback: str
    keys: tuple[tuple[int, str], ...]
    anew: bool
    lines: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(len(tokens) for _, tokens in self.spans)

    @property
    def unplayed(self) -> frozenset[int]:
        """Places of the dialogue that never happened to the world: faulty messages and the feedback on them."""
        if self.anew or not self.feedback:
            return frozenset()
        marks = [*(place for place, _ in self.keys[1:]), len(self.dialogue)]
        return frozenset(p for place in marks for p in (place - 1, place))


def start_of(
    trajectory: Trajectory,
    label: str,
    stage: Resample,
    before: Sequence[tuple[int, str]] | None = None,
    written: str | None = None,
    user: str | None = None,
) -> Start:
    """The start of a failed trajectory's recoveries, from what its diagnosis (under the stage's `label`) measured.
    `before` are the `keys` of its own start, if it was a recovery itself; `written` is said in the rule's place;
    `user` is the label of who spoke with the agent."""
    place = int(trajectory.measures[f"{label}.fault"])
    feedback = (written or str(trajectory.measures[f"{label}.feedback"])) if stage.feedback.given else ""
    keys = tuple(before) if before else ((0, trajectory.key),)
    anew = stage.cut == "end"
    dialogue = trajectory.dialogue
    if not anew:
        if place >= len(dialogue):  # nothing was wrong but that it ended: with its last message
            place = max(p for p, m in enumerate(dialogue) if m.role == "agent")
        # the faulty message is shown where there is something to say about it
        dialogue = dialogue[: place + 1] if feedback else dialogue[:place]
    spoken = sum(m.role == "agent" for m in dialogue)
    spans: list[tuple[Kind, tuple[int, ...]]] = []
    tokens = trajectory.ledger.tokens()
    for span in trajectory.ledger.spans:
        agent = span.kind in ("agent", "attempt")
        if agent and spoken == 0:
            break
        spoken -= agent
        spans.append(("attempt" if agent else span.kind, tuple(tokens[span.start : span.stop].tolist())))
        if spoken == 0 and dialogue and dialogue[-1].role == "agent":
            break
    lines = () if anew else tuple(json.loads(str(trajectory.measures.get(lines_name(user), "[]"))))
    return Start(tuple(spans), tuple(dialogue), feedback, keys, anew, lines)


def lines_name(user: str | None) -> str:
    """The measure in which a trajectory keeps a user's own lines, as JSON."""
    return f"{user}.lines"


def play(
    start: Start, key: str, task: Task, session: Session, users: Users | None, streams: Streams, phrasing: str
) -> UserSession | None:
    """Bring a fresh session and a fresh user to where the start leaves them; the user, who from now on draws the
    numbers of `key`.

    Raises:
        InfraFailure: world or user did not do again what they did before.
    """
    numbers = streams(start.keys[0][1])
    user = None if users is None else users.open(task, numbers, phrasing)
    told = iter(start.lines) if isinstance(user, Recalling) else None
    if user is not None and told is not None:
        _tell(user, None, told, start.dialogue, 0)
    else:
        _same(user.first().text if user else task.instruction, start.dialogue, 0)
    changes = dict(start.keys[1:])
    for place, message in enumerate(start.dialogue):
        if place in changes:
            _go_on(numbers, streams(changes[place]))
        if message.role != "agent" or place in start.unplayed:
            continue
        if message.call is not None:
            _same(session.step(message.call).text, start.dialogue, place + 1)
        elif message.malformed is None and user is not None:
            if isinstance(session, Hearing):
                session.hear(message.text)
            if told is not None:
                _tell(user, message.text, told, start.dialogue, place + 1)
            else:
                _same(user.reply(message.text).text, start.dialogue, place + 1)
    _go_on(numbers, streams(key))
    return user


def _tell(user: UserSession, agent_text: str | None, told: Iterator[str], dialogue: Sequence[Message], at: int) -> None:
    """Tell a user its next line: as it remembers it, or as it stands in the dialogue where that was not recorded."""
    assert isinstance(user, Recalling)
    user.recall(agent_text, next(told, dialogue[at].text if at < len(dialogue) else ""))


def _go_on(numbers: np.random.Generator, other: np.random.Generator) -> None:
    """Let whoever holds these random numbers draw the other ones from now on."""
    numbers.bit_generator.state = other.bit_generator.state


def _same(text: str, dialogue: Sequence[Message], place: int) -> None:
    if place < len(dialogue) and dialogue[place].text != text:
        raise InfraFailure("env", f"played again, it says {text!r} where it said {dialogue[place].text!r}")
