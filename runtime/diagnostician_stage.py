"""The `diagnostician` stage of a run: a policy that writes feedback is trained on triples, on the first trainer rank,
and kept in the run directory, where the stage that samples failures again finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlspec.compiler.catalog.diagnosticians import Diagnostician

if TYPE_CHECKING:
    from rlspec.runtime.run import Run


class DiagnosticianStage:
    """See the module. Killed in the middle, it begins again."""

    def __init__(self, run: Run, label: str) -> None:
        self.run_, self.label = run, label
        found = next(s for s in run.plan.stages if s.label == label).component()
        assert isinstance(found, Diagnostician)
        self.stage = found

    def run(self) -> None:
        """Train, save and examine.

        Raises:
            Refusal: RLC0709, no attempt met the criterion; what the file of triples is refused for.
            Interrupted: the user asked to stop.
        """
        run, stage = self.run_, self.stage
        run.reporter.begin(self.label, stage.max_steps)
        folder = run.directory.diagnostician(self.label)
        about = self._call("coach_begin", self.label, str(folder))
        steps, every = 0, stage.stop.every
        while lines := self._call("coach_learn", every):
            steps += len(lines)
            run.log({"stage": self.label, "step": steps, **about, **lines[-1]})
            run.stop_if_asked()
        run.log({"stage": self.label, "step": steps, "kind": "examination", **about, **self._call("coach_end")})

    def _call(self, method: str, *arguments: Any) -> Any:
        run = self.run_
        with run.clock.phase("coach"):
            return run.executor.get(run.executor.call(run.trainers[0], method, *arguments))
