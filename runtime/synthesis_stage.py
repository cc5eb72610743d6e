"""The `codegym` stage of a run: environments made from problems.

What it makes depends on the spec alone, so it is kept in the cache, where every process of the run finds it. It is made
before the policy is, whose vocabulary needs the environments' words; at its place in the schedule its table is recorded
and the folder copied into the run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.runtime.record.cache import cache_directory
from rlspec.runtime.worlds.codegym.store import ABOUT, made_for

if TYPE_CHECKING:
    from rlspec.runtime.run import Run


def prepare(run: Run) -> None:
    """Make every stage's environments that the cache does not hold.

    Raises:
        Refusal: as `made_for`.
    """
    for stage in run.plan.stages:
        settings = stage.component()
        if isinstance(settings, Synthesis):
            run.reporter.begin(stage.label, None)
            with run.clock.phase("synthesise"):
                made_for(settings, cache_directory())


class SynthesisStage:
    """The stage at its place in the schedule."""

    def __init__(self, run: Run, label: str) -> None:
        self.run_, self.label = run, label
        found = next(s for s in run.plan.stages if s.label == label).component()
        assert isinstance(found, Synthesis)
        self.settings = found

    def run(self) -> None:
        """Record what each filter let through, and keep the environments in the run directory."""
        run = self.run_
        folder = made_for(self.settings, cache_directory())
        kept = Path(run.directory.path) / "envs" / self.label
        if not kept.exists():
            shutil.copytree(folder, kept)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        run.log({"stage": self.label, "step": 1, "kind": "synthesis", **about["metrics"]})
