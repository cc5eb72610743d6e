"""Jobs of a synthesis: for every problem one child that does a whole batch of items."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlspec.compiler.catalog.codegym import SynthesisLimits
from rlspec.runtime.worlds.codegym.environment import Design, Row
from rlspec.runtime.worlds.codegym.host import tool_table
from rlspec.runtime.worlds.codegym.jail import Jail, Job, Limits, Result
from rlspec.runtime.worlds.codegym.problems import Configuration, Problem


@dataclass(slots=True)
class Draft:
    """A problem on its way. `tried` solutions so far, `rows` its tasks that are still in."""

    problem: Problem
    configurations: list[Configuration]
    design: Design
    references: list[Any] = field(default_factory=list)
    tried: int = 0
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Batches:
    """Runs batches in a jail, within the limits that the stage declares."""

    limits: SynthesisLimits
    jail: Jail

    def run(
        self, drafts: Sequence[Draft], op: str, items: Sequence[list[dict[str, Any]]], within: float, texts: int = 1
    ) -> list[list[Result]]:
        """One batch of items per draft, each batch in one child; a batch that is lost is done again one by one, as long
        as the environment's seconds last."""
        whole = self.limits.environment_within
        jobs = [
            self._job(d, op, batch, min(whole, within * max(1, len(batch))), texts)
            for d, batch in zip(drafts, items, strict=True)
        ]
        out: list[list[Result]] = []
        for draft, batch, result in zip(drafts, items, self.jail.run_all(jobs), strict=True):
            found = _unpacked(result, len(batch))
            out.append(found if found is not None else self._singly(draft, op, batch, within, texts))
        return out

    def _singly(self, draft: Draft, op: str, batch: list[dict[str, Any]], within: float, texts: int) -> list[Result]:
        out: list[Result] = []
        until = time.monotonic() + self.limits.environment_within
        for item in batch:
            if time.monotonic() > until:
                out.append(Result("timeout", text="the environment took too long"))
                continue
            result = self.jail.run(self._job(draft, op, [item], within, texts))
            found = _unpacked(result, 1)
            out.append(found[0] if found else result)
        return out

    def _job(self, draft: Draft, op: str, batch: list[dict[str, Any]], within: float, texts: int) -> Job:
        design = draft.design
        shared = {"op": op, "tools": tool_table(design), "main": design.main, "items": batch}
        limits = Limits(wall=within, cpu=within, memory=self.limits.memory_mib << 20)
        return Job(design, texts, shared, limits)


def _unpacked(result: Result, size: int) -> list[Result] | None:
    """Results of a batch, or None when the batch was lost."""
    found = result.value.get("results")
    if result.status != "ok" or not isinstance(found, list) or len(found) != size:
        return None
    return [
        Result("ok", r) if isinstance(r, dict) and r.get("ok") is True else Result("error", text=str(_said(r)))
        for r in found
    ]


def _said(result: Any) -> str:
    return str(result.get("error", ""))[:200] if isinstance(result, Mapping) else ""
