"""A conversation in progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.rollouts.desk import Desk
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.worlds.protocol import Message, Session, Task, UserSession


@dataclass(slots=True)
class Talk:
    """Where one conversation is: what has been said, as tokens and as messages, and what judges have said about it."""

    job: Job
    desk: Desk
    task: Task
    session: Session | None
    user: UserSession | None
    live: dict[str, Talk]  # conversations in progress, this one among them
    done: dict[str, Trajectory]
    opened: bool = False  # the engine knows it
    ledger: Ledger = field(default_factory=Ledger)
    dialogue: list[Message] = field(default_factory=list)
    unseen: frozenset[int] = frozenset()  # places of the dialogue that no judge is shown
    earlier: int = 0  # turns of the agent that judges see and that are not this conversation's own
    judged: dict[str, dict[str, Any]] = field(default_factory=dict)  # by judges that interrupt, so far
    unusable: dict[str, int] = field(default_factory=dict)  # answers of each judge that were no verdict

    @property
    def opened_session(self) -> Session:
        """The session, once there is one."""
        assert self.session is not None
        return self.session

    @property
    def events(self) -> int:
        """Answers that the agent has had: results of calls, and replies of the user."""
        return sum(message.role != "agent" for message in self.seen) - 1

    @property
    def seen(self) -> list[Message]:
        """The dialogue as judges see it."""
        return [m for place, m in enumerate(self.dialogue) if place not in self.unseen]
