"""From problems to admitted environments, stage by stage over all problems, every stage counted.

    made = synthesise(Synthesis(), read_problems("shipped"))
    made.environments       # admitted ones, with oracle trajectories
    made.table              # what each filter let through

1. An author makes a design of each problem: tools, observation tools, a solution that acts through tools.
2. The solution must pass its unit tests; every configuration needs a reference answer.
3. Solutions are tried, up to `solutions` per problem, until one answers *all* configurations as the reference does. Its
   calls are replayed through the tools, without the solution's own code, and become the oracle trajectories.
4. A task (a configuration) is admitted by its number of calls, of distinct tools, and by how often the declared policy
   solves it. An environment without a task is dropped.

All written code runs in the jail. What is measured is measured; nothing is admitted because an author says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym import decompose, guard
from rlspec.runtime.worlds.codegym.batches import Batches, Draft
from rlspec.runtime.worlds.codegym.comparators import same
from rlspec.runtime.worlds.codegym.environment import SUBMIT, Design, Environment, Row
from rlspec.runtime.worlds.codegym.envstring import configuration_text
from rlspec.runtime.worlds.codegym.host import first_state
from rlspec.runtime.worlds.codegym.jail import Jail, Result
from rlspec.runtime.worlds.codegym.problems import Configuration, Problem
from rlspec.runtime.worlds.codegym.toolschema import BadTool, fits
from rlspec.runtime.worlds.codegym.yields import Count, Made
from rlspec.runtime.worlds.protocol import InfraFailure

MOST_CALLS = 4_096
"""Calls after which a solution is stopped; how many a task may have is for the filter to say."""
SEARCH_BUDGET = 4_000
"""Calls of one search."""


class Author(Protocol):
    """Who makes environments of problems."""

    def design(self, problem: Problem) -> Design:
        """The environment of a problem.

        Raises:
            NotDecomposed, guard.Unsafe, BadTool: what stands in the way.
        """

    def solution(self, problem: Problem, design: Design, number: int) -> Design | None:
        """The `number`-th try (from 0) at a solution that acts through the design's tools; None when there are no more.
        It is given back as the design with that solution."""


class SyntaxTree:
    """The deterministic author; its one solution is the problem's own, acting through tools."""

    def design(self, problem: Problem) -> Design:
        return decompose.author(problem)

    def solution(self, problem: Problem, design: Design, number: int) -> Design | None:
        return design if number == 0 else None


class Policy(Protocol):
    """Who attempts tasks, to measure how hard they are."""

    def attempt(self, problem: Problem, design: Design, row: Row, number: int) -> Any:
        """The answer of an attempt; None for none."""


def author_of(settings: Synthesis) -> Author:
    """The author that the stage declares."""
    if settings.author == "deterministic":
        return SyntaxTree()
    from rlspec.runtime.worlds.codegym.llm import LlmAuthor

    return LlmAuthor(settings)


def policy_of(settings: Synthesis, jail: Jail) -> Policy | None:
    """The attempting policy that the stage declares; None for the random one, whose attempts are batched."""
    if settings.admit.policy == "random":
        return None
    from rlspec.runtime.worlds.codegym.llm import LlmPolicy

    return LlmPolicy(settings, jail)


def synthesise(settings: Synthesis, problems: Sequence[Problem], author: Author | None = None) -> Made:
    """Make, measure and admit environments; the same for equal settings and problems when the author is deterministic.

    A problem, or a task, that an endpoint's failure loses is left out and counted as lost.

    Raises:
        Refusal: RLC0708, the sandbox failed, or more than a quarter of the problems was lost; RLC0710, this machine
            cannot keep written code in.
    """
    with Jail(sandbox=settings.sandbox) as jail:
        maker = _Synthesiser(settings, jail, author or author_of(settings), policy_of(settings, jail), len(problems))
        try:
            return maker.run(problems)
        except InfraFailure as failure:
            raise Refusal("RLC0708", f"the synthesis failed: {failure}", "cure the cause and run again") from failure


class _Synthesiser:
    def __init__(self, settings: Synthesis, jail: Jail, author: Author, policy: Policy | None, size: int) -> None:
        self.settings, self.author, self.policy = settings, author, policy
        self.table: list[Count] = []
        self.batches = Batches(settings.limits, jail)
        self.lost, self.bearable = 0, size // 4

    def run(self, problems: Sequence[Problem]) -> Made:
        drafts = self._designed(problems)
        drafts = self._tested(drafts)
        drafts = self._referenced(drafts)
        drafts = self._solved(drafts)
        drafts = self._replayed(drafts)
        drafts = self._long_enough(drafts)
        drafts = self._many_tools(drafts)
        drafts = self._hard_enough(drafts)
        environments = [
            Environment(
                id=d.problem.id,
                family=d.problem.family,
                comparator=d.problem.comparator,
                design=d.design,
                rows=tuple(d.rows),
                hide_inputs=self.settings.hide_inputs,
            )
            for d in drafts
        ]
        return Made(environments, self.table)

    def _lose(self, count: Count, failure: InfraFailure) -> None:
        """Count what the machinery has lost; give up when that is too much."""
        count.why[f"lost: {_short(failure.reason)}"] += 1
        self.lost += 1
        if self.lost > self.bearable:
            raise failure

    # --------------------------------------------------------------------------------------------------- counting

    def _count(self, name: str, before: Sequence[Draft], rows: bool = True) -> Count:
        tasks = sum(len(d.rows) if rows else len(d.configurations) for d in before)
        count = Count(name, problems_in=len(before), tasks_in=tasks)
        self.table.append(count)
        return count

    @staticmethod
    def _through(count: Count, after: list[Draft], rows: bool = True) -> list[Draft]:
        count.problems = len(after)
        count.tasks = sum(len(d.rows) if rows else len(d.configurations) for d in after)
        return after

    # ---------------------------------------------------------------------------------------------------- filters

    def _designed(self, problems: Sequence[Problem]) -> list[Draft]:
        chosen = {p.id: _configurations(self.settings, p) for p in problems}
        count = Count("decomposed", problems_in=len(problems), tasks_in=sum(map(len, chosen.values())))
        self.table.append(count)
        out = []
        for problem in problems:
            try:
                design = self.author.design(problem)
                _inputs_fit(problem, design)
            except (decompose.NotDecomposed, guard.Unsafe, BadTool) as error:
                count.why[_short(str(error))] += 1
                continue
            except InfraFailure as failure:
                self._lose(count, failure)
                continue
            out.append(Draft(problem, list(chosen[problem.id]), design))
        return self._through(count, out, rows=False)

    def _tested(self, drafts: list[Draft]) -> list[Draft]:
        limits = self.settings.limits
        count = self._count("unit tests: passed", drafts, rows=False)
        items = [[{"state": configuration_text(t.input)} for t in d.problem.tests] for d in drafts]
        out = []
        for draft, results in zip(
            drafts, self.batches.run(drafts, "reference", items, limits.reference_within), strict=True
        ):
            passed = [
                r.status == "ok" and same(draft.problem.comparator, r.value.get("answer"), t.output)
                for r, t in zip(results, draft.problem.tests, strict=True)
            ]
            if sum(passed) < max(limits.valid_tests, limits.valid_share * len(passed)):
                count.why[f"{sum(passed)} of {len(passed)} tests pass"] += 1
                continue
            out.append(draft)
        return self._through(count, out, rows=False)

    def _referenced(self, drafts: list[Draft]) -> list[Draft]:
        limits = self.settings.limits
        count = self._count("references: answer of the solution", drafts, rows=False)
        items = [[{"state": configuration_text(c.input)} for c in d.configurations] for d in drafts]
        out = []
        for draft, results in zip(
            drafts, self.batches.run(drafts, "reference", items, limits.reference_within), strict=True
        ):
            kept: list[Configuration] = []
            for configuration, result in zip(draft.configurations, results, strict=True):
                answer = result.value.get("answer")
                if result.status != "ok":
                    count.why[_short(result.text)] += 1
                elif len(json.dumps(answer)) > limits.answer_chars:
                    count.why["the answer is too long"] += 1
                elif not fits(draft.design.answer_type, answer):
                    count.why["the answer is not of the type that was declared"] += 1
                else:
                    kept.append(configuration)
                    draft.references.append(answer)
            draft.configurations = kept
            if kept:
                out.append(draft)
        return self._through(count, out, rows=False)

    def _solved(self, drafts: list[Draft]) -> list[Draft]:
        """Solutions in rounds: the first try of every problem, then the second of those that are left ..."""
        count = self._count("solved: one solution, all tasks", drafts, rows=False)
        solved: dict[str, Draft] = {}
        reasons: dict[str, str] = {}
        for number in range(self.settings.solutions):
            trying: list[Draft] = []
            for draft in drafts:
                if draft.problem.id in solved:
                    continue
                found = self._try(draft, number, count)
                if found is not None:
                    draft.tried = number + 1
                    trying.append(Draft(draft.problem, draft.configurations, found, draft.references, number + 1))
            if not trying:
                break
            for draft, results in zip(trying, self._solutions(trying), strict=True):
                rows, reason = self._rows(draft, results)
                if reason is None:
                    draft.rows = rows
                    solved[draft.problem.id] = draft
                else:
                    reasons[draft.problem.id] = reason
        out = [solved[d.problem.id] for d in drafts if d.problem.id in solved]
        count.why.update(reasons[i] for i in reasons if i not in solved)
        return self._through(count, out)

    def _try(self, draft: Draft, number: int, count: Count) -> Design | None:
        if self.settings.solver == "search":
            return draft.design if number == 0 else None  # the search is deterministic: a second one finds the same
        try:
            return self.author.solution(draft.problem, draft.design, number)
        except (guard.Unsafe, BadTool):
            return None
        except InfraFailure as failure:
            self._lose(count, failure)
            return None

    def _solutions(self, drafts: list[Draft]) -> list[list[Result]]:
        within = self.settings.limits.solve_within
        searching = self.settings.solver == "search"
        items = [
            [
                {"state": first_state(d.design, c.input), "most": MOST_CALLS, "target": r, "budget": SEARCH_BUDGET}
                if searching
                else {"state": first_state(d.design, c.input), "most": MOST_CALLS}
                for c, r in zip(d.configurations, d.references, strict=True)
            ]
            for d in drafts
        ]
        op, texts = ("search", 1) if searching else ("solve", 2)
        if not searching:
            for draft, batch in zip(drafts, items, strict=True):
                for item in batch:
                    item["main"] = draft.design.main
        return self.batches.run(drafts, op, items, within, texts)

    def _rows(self, draft: Draft, results: list[Result]) -> tuple[list[Row], str | None]:
        """The tasks with the solution's calls, or why the solution does not count."""
        rows = []
        for configuration, reference, result in zip(draft.configurations, draft.references, results, strict=True):
            if result.status != "ok":
                return [], _short(result.text)
            answer, calls = result.value.get("answer"), result.value.get("calls")
            if not same(draft.problem.comparator, answer, reference):
                return [], "another answer than the reference"
            if not _are_calls(calls):
                return [], "the solution's calls are not plain"
            assert calls is not None
            submission = (SUBMIT, {"answer": answer})
            rows.append(
                Row(
                    level=configuration.level,
                    input=configuration.input,
                    reference=reference,
                    calls=(*((name, arguments) for name, arguments in calls), submission),
                )
            )
        return rows, None

    def _replayed(self, drafts: list[Draft]) -> list[Draft]:
        """The calls alone, through the tools as an agent takes them, must work; a solution could have invented them."""
        count = self._count("replayed: every call works", drafts)
        items = [
            [{"state": first_state(d.design, r.input), "calls": list(r.calls[:-1])} for r in d.rows] for d in drafts
        ]
        out = []
        within = self.settings.limits.solve_within
        for draft, results in zip(drafts, self.batches.run(drafts, "replay", items, within), strict=True):
            kept = []
            for row, result in zip(draft.rows, results, strict=True):
                seen = result.value.get("observations", [])
                if result.status == "ok" and len(seen) == len(row.calls) - 1 and all(worked for worked, _ in seen):
                    kept.append(row.model_copy(update={"observations": tuple(str(text) for _, text in seen)}))
                else:
                    count.why["a call fails when it is replayed"] += 1
            draft.rows = kept
            if kept:
                out.append(draft)
        return self._through(count, out)

    def _long_enough(self, drafts: list[Draft]) -> list[Draft]:
        low, high = self.settings.admit.solution_calls
        count = self._count(f"calls: {low} to {high}", drafts)
        for draft in drafts:
            kept = [r for r in draft.rows if low <= len(r.calls) <= high]
            count.why["too few calls"] += sum(len(r.calls) < low for r in draft.rows)
            count.why["too many calls"] += sum(len(r.calls) > high for r in draft.rows)
            draft.rows = kept
        count.why = +count.why
        return self._through(count, [d for d in drafts if d.rows])

    def _many_tools(self, drafts: list[Draft]) -> list[Draft]:
        fewest = self.settings.admit.distinct_tools
        count = self._count(f"tools: at least {fewest}", drafts)
        for draft in drafts:
            kept = [r for r in draft.rows if len({name for name, _ in r.calls[:-1]}) >= fewest]
            count.why["too few tools"] += len(draft.rows) - len(kept)
            draft.rows = kept
        count.why = +count.why
        return self._through(count, [d for d in drafts if d.rows])

    def _hard_enough(self, drafts: list[Draft]) -> list[Draft]:
        admit = self.settings.admit
        name = f"solve rate: at most {admit.solve_rate:.1%} of {admit.attempts} by {admit.policy}"
        count = self._count(name, drafts)
        if admit.attempts:
            for draft, rates in zip(drafts, self._rates(drafts, count), strict=True):
                rated = [r.model_copy(update={"solve_rate": rate}) for r, rate in zip(draft.rows, rates, strict=True)]
                draft.rows = [r for r in rated if r.solve_rate is not None and r.solve_rate <= admit.solve_rate]
                count.why["too easy"] += sum(r.solve_rate is not None for r in rated) - len(draft.rows)
            count.why = +count.why
        return self._through(count, [d for d in drafts if d.rows])

    def _rate(self, policy: Policy, draft: Draft, row: Row, count: Count) -> float | None:
        """The share of attempts that are right; None when one was lost."""
        attempts = self.settings.admit.attempts
        try:
            answers = [policy.attempt(draft.problem, draft.design, row, n) for n in range(attempts)]
        except InfraFailure as failure:
            self._lose(count, failure)
            return None
        return sum(self._right(draft, row, answer) for answer in answers) / attempts

    def _rates(self, drafts: list[Draft], count: Count) -> Sequence[Sequence[float | None]]:
        attempts = self.settings.admit.attempts
        if self.policy is not None:
            return [[self._rate(self.policy, d, row, count) for row in d.rows] for d in drafts]
        items = [
            [
                {
                    "state": first_state(d.design, row.input),
                    "seed": (self.settings.seed * 1_000_003 + place) * 64 + number,
                    "fewest": 2,
                    "most": len(row.calls) + 4,
                    "answer_type": d.design.answer_type,
                }
                for place, row in enumerate(d.rows)
                for number in range(attempts)
            ]
            for d in drafts
        ]
        out = []
        within = self.settings.limits.solve_within
        for draft, results in zip(drafts, self.batches.run(drafts, "play", items, within), strict=True):
            right = [
                self._right(draft, draft.rows[n // attempts], r.value.get("answer")) if r.status == "ok" else False
                for n, r in enumerate(results)
            ]
            out.append([sum(right[n : n + attempts]) / attempts for n in range(0, len(right), attempts)])
        return out

    @staticmethod
    def _right(draft: Draft, row: Row, answer: Any) -> bool:
        return answer is not None and same(draft.problem.comparator, answer, row.reference)


def _are_calls(calls: Any) -> bool:
    return isinstance(calls, list) and all(
        isinstance(c, list) and len(c) == 2 and isinstance(c[0], str) and isinstance(c[1], dict) for c in calls
    )


def _inputs_fit(problem: Problem, design: Design) -> None:
    """Every input must bring what the solution takes.

    Raises:
        NotDecomposed: one does not.
    """
    wanted = decompose.parameters_of(design)
    for given in [*(t.input for t in problem.tests), *(c.input for c in problem.configurations)]:
        if given.keys() != wanted.keys() or not all(fits(kind, given[name]) for name, kind in wanted.items()):
            raise decompose.NotDecomposed("an input does not fit the parameters of the solution")


def _configurations(settings: Synthesis, problem: Problem) -> list[Configuration]:
    """Those that are used: of the wanted levels, the first of each level in turn, in the order of the file."""
    by_level = {
        level: [c for c in problem.configurations if c.level == level] for level in dict.fromkeys(settings.levels)
    }
    chosen: list[Configuration] = []
    place = 0
    while len(chosen) < settings.configurations and any(place < len(found) for found in by_level.values()):
        chosen += [found[place] for found in by_level.values() if place < len(found)]
        place += 1
    wanted = chosen[: settings.configurations]
    return [c for c in problem.configurations if any(c is w for w in wanted)]


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
