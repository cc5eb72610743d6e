"""Diagnosing failures inside a run: the cases of a step go to the workers, what is said comes back and is kept.

A worker holds tasks, tokenizer and diagnostician; the driver keeps what was said in `diagnoses.jsonl` of the run, with
every draft and the verdict on it, so that a run which goes on from a checkpoint says the same again without asking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rlspec.compiler.catalog.resampling import Feedback
from rlspec.runtime.endpoints.chat import Spent
from rlspec.runtime.metrics import mean
from rlspec.runtime.policies.chat import Renderer
from rlspec.runtime.worlds.diagnosticians import Author, Case, Draft, Said, identity, settle
from rlspec.runtime.worlds.protocol import Task

if TYPE_CHECKING:
    from rlspec.runtime.run import Run


class Diagnostician(Protocol):
    """Who writes drafts about a case; at least one, if only to say that there is none."""

    def drafts(
        self, case: Case, task: Task, policy: str, fits: Callable[[str], bool] = ...
    ) -> tuple[list[Draft], Spent]: ...


class Desk:
    """A worker's part, with who writes. `task` gives the task of a case, `policy` its environment's policy text."""

    def __init__(
        self,
        says: Feedback,
        who: Diagnostician,
        renderer: Renderer,
        task: Callable[[Case], Task],
        policy: Callable[[Case], str],
    ) -> None:
        self.says, self._who, self._renderer, self._task, self._policy = says, who, renderer, task, policy
        self._at_once = says.llm.at_once if says.by == "llm" else 1

    def say(self, cases: Sequence[Case]) -> list[Said]:
        """What is said of each, in their order."""
        known = [(case, self._task(case), self._policy(case)) for case in cases]
        if self._at_once == 1 or len(known) < 2:
            return [self._one(*parts) for parts in known]
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="diagnosis") as pool:
            return list(pool.map(lambda parts: self._one(*parts), known))

    def _one(self, case: Case, task: Task, policy: str) -> Said:
        drafts, spent = self._who.drafts(case, task, policy, partial(self._fits, case.room))
        author: Author = "llm" if self.says.by == "llm" else "policy"
        feedback, by = settle(case, task.gold, self.says, author, drafts)
        return Said(case.key, feedback, by, tuple(drafts), spent)

    def _fits(self, room: int, text: str) -> bool:
        return len(self._renderer.tool(text).tokens) <= room


class Diagnoses:
    """The driver's part, of one `resample` stage."""

    def __init__(self, run: Run, label: str, says: Feedback) -> None:
        self.run_, self.label, self.says = run, label, says
        self._kept: dict[str, dict[str, Any]] | None = None

    def of(self, step: int, cases: Sequence[Case]) -> dict[str, Said]:
        """What is said of these cases, by key; from the record where it was said before."""
        digests = {case.key: self._digest(step, case) for case in cases}
        kept = self._record()
        found = {case.key: _read(kept[digests[case.key]]) for case in cases if digests[case.key] in kept}
        new = [case for case in cases if case.key not in found]
        for said in self._ask(new) if new else ():
            line = {"stage": self.label, "step": step, "digest": digests[said.key], **asdict(said)}
            self.run_.directory.diagnoses.append(line)
            kept[digests[said.key]] = line
            found[said.key] = said
        return {case.key: found[case.key] for case in cases}

    def _ask(self, cases: Sequence[Case]) -> list[Said]:
        run, folder = self.run_, ""
        if self.says.by == "policy":
            folder = str(run.directory.diagnostician(self.says.policy))
        count = len(run.rollouts)
        with run.clock.phase("diagnose"):
            shares = run.executor.get(
                [
                    run.executor.call(role, "diagnose", self.label, list(cases[rank::count]), folder)
                    for rank, role in enumerate(run.rollouts)
                ]
            )
        return [said for share in shares for said in share]

    def _digest(self, step: int, case: Case) -> str:
        return hashlib.sha256(f"{self.label}/{step}/{identity(case)}".encode()).hexdigest()[:32]

    def _record(self) -> dict[str, dict[str, Any]]:
        if self._kept is None:
            self._kept = {str(line["digest"]): line for line in self.run_.directory.diagnoses.read()}
        return self._kept


def _read(line: Mapping[str, Any]) -> Said:
    drafts = tuple(Draft(d["text"], d["verdict"]) for d in line["drafts"])
    return Said(line["key"], line["feedback"], line["by"], drafts, Spent(**line["spent"]))


def metrics(said: Sequence[Said]) -> dict[str, float]:
    """What diagnosing came to in a step with recoveries. `leaks` is the share of written texts that were rejected for a
    value that they give away, `malformed` of those that could not be used otherwise; `unanswered` the share of cases
    without an answer; `own_words` of cases where the diagnostician's own text was said, `dropped` where nothing was."""
    written = [d.verdict for s in said for d in s.drafts if d.verdict != "failed"]
    out = {
        "diagnoses": float(len(said)),
        "leaks": mean(float(v == "leak") for v in written),
        "malformed": mean(float(v == "malformed") for v in written),
        "unanswered": mean(float(s.drafts[-1].verdict == "failed") for s in said),
        "own_words": mean(float(s.by in ("llm", "policy")) for s in said),
        "dropped": mean(float(s.feedback is None) for s in said),
    }
    for name in ("requests", "failed_tries", "prompt_tokens", "completion_tokens"):
        if any(s.by == "llm" or s.spent.requests or s.spent.failed_tries for s in said):
            out[name] = float(sum(getattr(s.spent, name) for s in said))
    return out
