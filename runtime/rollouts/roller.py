"""Rollouts: policy, user and environment in conversation, many at a time.

Every conversation has its own state of the world, its own user and its own random numbers, all named by its key, so
what happens in it does not depend on which others run beside it. The engine advances all of them together; whoever has
finished a message is answered at once and goes on, or when a user that takes its time has answered.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from rlspec.compiler.plan import Plan
from rlspec.runtime.engines.protocol import Engine, Sampled
from rlspec.runtime.policies.chat import Piece, Renderer
from rlspec.runtime.record.trajectory import Finish, Trajectory
from rlspec.runtime.recovery import Start, lines_name, play
from rlspec.runtime.rollouts.desk import Desk, at_once
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.rollouts.judging import Judging, diagnoses
from rlspec.runtime.rollouts.talk import Talk
from rlspec.runtime.rollouts.waiting import Waiting
from rlspec.runtime.streams import derived_seed, stream
from rlspec.runtime.worlds.protocol import (
    Hearing,
    InfraFailure,
    Message,
    Observation,
    Recalling,
    Session,
    Task,
    is_slow,
)

TASKS_KEPT = 512
T = TypeVar("T")


class Roller:
    """Has conversations with one engine. `seed` is the run's."""

    def __init__(self, plan: Plan, engine: Engine, renderer: Renderer, context: int) -> None:
        self.engine, self.renderer, self.seed, self.context = engine, renderer, plan.seed, context
        self.desks = {source.env: Desk.of(plan, source) for source in plan.drawn}
        self._judging = Judging(plan)
        self._tasks: OrderedDict[tuple[str, str, int], Task] = OrderedDict()
        self.seconds = {"generation": 0.0, "world": 0.0}
        self._waiting = Waiting(at_once(self.desks.values()))

    def run(self, jobs: Iterable[Job]) -> list[Trajectory]:
        """All conversations, in the order of the jobs. A failure of the machinery ends its own conversation only."""
        began = time.perf_counter()
        generating = 0.0
        coming = deque(jobs)
        order = [job.key for job in coming]
        live: dict[str, Talk] = {}
        done: dict[str, Trajectory] = {}
        while coming or live or self._waiting:
            while coming and len(live) < self.engine.capacity:
                self._begin(coming.popleft(), live, done)
            asked = time.perf_counter()
            finished = self.engine.poll()
            generating += time.perf_counter() - asked
            for sampled in finished:
                talk = live[sampled.key]
                self._move(talk, lambda talk=talk, sampled=sampled: self._advance(talk, sampled))  # type: ignore[misc]
            self._waiting.take(block=not finished)
        self.seconds["generation"] += generating
        self.seconds["world"] += time.perf_counter() - began - generating
        return [done[key] for key in order]

    def _move(self, talk: Talk, act: Callable[[], Finish | None]) -> None:
        """Do something in a conversation that may end it."""
        failure = None
        try:
            finish = act()
        except InfraFailure as error:
            finish, failure = "failed", str(error)
        if finish is None:
            return
        if talk.opened:
            self.engine.close(talk.job.key)
        del talk.live[talk.job.key]
        self._end(talk, finish, failure)

    def _ask(self, talk: Talk, slow: bool, work: Callable[[], T], then: Callable[[T], Finish | None]) -> Finish | None:
        """Go on with what comes of the work: at once, or when it has come back."""
        if not slow:
            return then(work())
        key = talk.job.key
        self._waiting.ask(key, work, lambda outcome: self._move(talk, lambda: then(outcome.get())))
        return None

    # ----------------------------------------------------------------------------------------- one conversation

    def _begin(self, job: Job, live: dict[str, Talk], done: dict[str, Trajectory]) -> None:
        desk = self.desks[job.env]
        task = self.task(job.env, job.split, job.task)
        talk = live[job.key] = Talk(job, desk, task, None, None, live, done)
        self._move(
            talk,
            lambda: self._ask(
                talk, is_slow(desk.world), lambda: desk.world.reset(task), lambda session: self._begun(talk, session)
            ),
        )

    def _begun(self, talk: Talk, session: Session) -> Finish | None:
        """The world is there: let the user begin, or play a failed attempt again."""
        talk.session, job, start = session, talk.job, talk.job.start
        slow = is_slow(talk.desk.talks(job))
        if start is not None:
            slow = slow or is_slow(talk.desk.world)
            return self._ask(talk, slow, lambda: self._recovery(talk, start), lambda shown: self._open(talk, shown))
        return self._ask(talk, slow, lambda: self._first(talk), lambda said: self._opening(talk, said))

    def _open(self, talk: Talk, pieces: list[Piece]) -> None:
        """Let the agent begin."""
        key = talk.job.key
        uniforms = stream(self.seed, "sampling", key).random(self.context)
        self.engine.open(key, uniforms, derived_seed(self.seed, "sampling", key))
        talk.opened = True
        self._show(talk, pieces)

    def _first(self, talk: Talk) -> str:
        """The user's first words, the instruction itself where there is no user."""
        users = talk.desk.talks(talk.job)
        if users is None:
            return talk.task.instruction
        talk.user = users.open(talk.task, self._users_numbers(talk.job.key), talk.job.phrasing)
        return talk.user.first().text

    def _opening(self, talk: Talk, first: str) -> None:
        """What the agent is shown with the user's first words."""
        talk.dialogue.append(Message("user", first))
        desk = talk.desk
        self._open(talk, self.renderer.opening(desk.world.system, desk.tools(talk.task), first))

    def _recovery(self, talk: Talk, start: Start) -> list[Piece]:
        """A failed attempt and the feedback on it, and world and user where they were."""
        job, task, users = talk.job, talk.task, talk.desk.talks(talk.job)
        pieces = [Piece(kind, tokens) for kind, tokens in start.spans]
        stopped = bool(pieces) and pieces[-1].tokens[-1] == self.renderer.stop_token
        talk.dialogue.extend(start.dialogue)
        if start.anew:
            said = f"{start.feedback} {self._first(talk)}".strip()
            talk.unseen = frozenset(range(len(talk.dialogue)))
            talk.dialogue.append(Message("user", said))
            return [*pieces, self.renderer.user(said, stopped)]
        talk.user = play(start, job.key, task, talk.opened_session, users, self._users_numbers, job.phrasing)
        talk.unseen = start.unplayed
        talk.earlier = sum(m.role == "agent" for m in talk.seen)
        if start.feedback:
            talk.dialogue.append(Message("tool", start.feedback, status="error"))
            pieces.append(self.renderer.tool(start.feedback, stopped))
        return pieces

    def _users_numbers(self, key: str) -> np.random.Generator:
        return stream(self.seed, "user", key)

    def task(self, env: str, split: str, number: int) -> Task:
        """A task of an environment; the rollouts of a group share it."""
        key = (env, split, number)
        if key not in self._tasks:
            self._tasks[key] = self.desks[env].world.task(split, number)
            if len(self._tasks) > TASKS_KEPT:
                self._tasks.popitem(last=False)
        return self._tasks[key]

    def _show(self, talk: Talk, pieces: list[Piece]) -> None:
        for piece in pieces:
            talk.ledger.append(piece.kind, piece.tokens)
        self.engine.feed(talk.job.key, [token for piece in pieces for token in piece.tokens])

    def _advance(self, talk: Talk, sampled: Sampled) -> Finish | None:
        """Take the agent's message, answer it, or say how the conversation ended."""
        talk.ledger.append("agent", sampled.tokens, sampled.logprobs, max(sampled.versions, default=-1))
        message = self.renderer.read(sampled.tokens)
        if talk.desk.max_messages and len(talk.seen) + 1 >= talk.desk.max_messages:  # nobody answers any more
            talk.dialogue.append(message)
            return "turn_limit"
        if message.call is not None:
            call = message.call
            return self._ask(
                talk,
                is_slow(talk.desk.world),
                lambda: talk.opened_session.step(call),
                lambda seen: self._observed(talk, sampled, message, seen),
            )
        if message.malformed is not None and talk.desk.ends_malformed:
            talk.dialogue.append(message)
            return "malformed"
        if message.malformed is not None:
            answer = Message("tool", f"error : {message.malformed}", status="error")
            return self._answered(talk, sampled, message, answer, None)
        if isinstance(talk.session, Hearing):
            talk.session.hear(message.text)
        return self._ask(
            talk,
            is_slow(talk.desk.talks(talk.job)),
            lambda: self._user_answers(talk, message.text),
            lambda said: self._answered(talk, sampled, message, *said),
        )

    def _observed(self, talk: Talk, sampled: Sampled, said: Message, seen: Observation) -> Finish | None:
        """What a call came to."""
        message = Message("agent", said.text, said.call, status=seen.status, wrote=seen.wrote)
        answer = Message("tool", seen.text, status=seen.status, wrote=seen.wrote)
        return self._answered(talk, sampled, message, answer, "transferred" if seen.ends else None)

    def _answered(
        self, talk: Talk, sampled: Sampled, message: Message, answer: Message, ends: Finish | None
    ) -> Finish | None:
        """The agent's message and its answer are known: hear those who interrupt, and go on."""
        talk.dialogue.append(message)
        if answer.text:
            talk.dialogue.append(answer)
        asked = self._judging.interrupting(talk)
        if not asked:
            return self._go_on(talk, sampled, answer, ends, "")
        return self._ask(
            talk,
            any(map(is_slow, asked)),
            lambda: self._judging.objection(talk),
            lambda said: self._go_on(talk, sampled, answer, ends, said),
        )

    def _go_on(
        self, talk: Talk, sampled: Sampled, answer: Message, ends: Finish | None, objection: str
    ) -> Finish | None:
        """Show the agent the answer, with what a judge objects behind it, unless the conversation is over."""
        stopped = sampled.finish == "stop"
        if ends is not None:
            return ends
        if sampled.finish == "context_limit":
            return "context_limit"
        if talk.earlier + talk.ledger.turns >= talk.desk.max_turns or 0 < talk.desk.max_events <= talk.events:
            return "turn_limit"
        if 0 < talk.desk.max_messages <= len(talk.seen):
            return "turn_limit"
        told = f"{answer.text} {objection}".strip()
        piece = self.renderer.tool(told, stopped) if answer.role == "tool" else self.renderer.user(told, stopped)
        if len(talk.ledger) + len(piece.tokens) >= self.context:
            return "context_limit"
        if objection:
            talk.dialogue.append(Message("tool", objection, status="error"))
        self._show(talk, [piece])
        return None

    def _user_answers(self, talk: Talk, text: str) -> tuple[Message, Finish | None]:
        if talk.user is None:
            return Message("user", ""), "user_done"
        turn = talk.user.reply(text)
        return Message("user", turn.text), "user_done" if turn.done else None

    # ------------------------------------------------------------------------------------------------ the end

    def _end(self, talk: Talk, finish: Finish, failure: str | None = None) -> None:
        """Measure, close, have it judged."""
        job = talk.job
        out = Trajectory(
            job.key,
            job.env,
            talk.task.id,
            job.group,
            talk.ledger,
            talk.dialogue,
            finish=finish,
            failure=failure,
        )
        if is_slow(talk.desk.world):
            self._waiting.ask(
                job.key, partial(self._measured, talk, out), lambda told: self._have_judged(talk, told.get())
            )
        else:
            self._have_judged(talk, self._measured(talk, out))

    def _measured(self, talk: Talk, out: Trajectory) -> Trajectory:
        """Measure the world and the user, and close the session."""
        job, session = talk.job, talk.session
        if session is None:  # there is none where the world failed to begin
            return out
        try:
            if out.failure is None:
                if isinstance(session, Hearing) and out.finish in ("turn_limit", "context_limit", "malformed"):
                    session.cut()
                out.measures = {f"{job.env}.{k}": v for k, v in session.measure().items()}
                speaker = job.user or talk.desk.source.user
                if talk.user is not None and speaker is not None:
                    out.measures |= {f"{speaker}.{k}": v for k, v in talk.user.measure().items()}
                    if isinstance(talk.user, Recalling) and talk.desk.resampled:
                        out.measures[lines_name(speaker)] = json.dumps(talk.user.lines())
        except InfraFailure as error:
            out.finish, out.failure = "failed", str(error)
        finally:
            session.close()
        return out

    def _have_judged(self, talk: Talk, out: Trajectory) -> None:
        """Have a trajectory judged, if it is whole."""
        job = talk.job
        if out.failure is None and any(map(is_slow, talk.desk.judges.values())):
            judged = partial(self._judging.measures, talk)
            self._waiting.ask(job.key, judged, lambda outcome: self._finish(talk, out, outcome.get))
        else:
            self._finish(talk, out, partial(self._judging.measures, talk))

    def _finish(self, talk: Talk, out: Trajectory, judged: Callable[[], dict[str, Any]]) -> None:
        """Take the judgements; a judge that fails beyond its retries makes the trajectory a failed one."""
        try:
            if out.failure is None:
                out.measures |= judged()
                out.measures |= diagnoses(talk)
        except InfraFailure as error:
            out.finish, out.failure = "failed", str(error)
        talk.done[talk.job.key] = out
