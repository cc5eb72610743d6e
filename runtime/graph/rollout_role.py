"""The rollout role: one engine, and the conversations that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlspec.compiler.catalog.diagnosticians import Diagnostician as Trained
from rlspec.compiler.catalog.policies import HfEngine as HfEngineSettings
from rlspec.compiler.catalog.policies import VllmEngine as VllmEngineSettings
from rlspec.compiler.catalog.resampling import Feedback, Resample
from rlspec.compiler.plan import Plan
from rlspec.runtime.diagnosing import Desk, Diagnostician
from rlspec.runtime.engines.protocol import Engine
from rlspec.runtime.policies.chat import Renderer
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.rollouts.roller import Roller
from rlspec.runtime.worlds.diagnosticians import Case, LlmDiagnostician, Said

PROBE_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2, "float16": 0.05}
"""Nats by which engine and trainer may differ on the probe: far above rounding, far below stale weights."""


class RolloutRole:
    """See the module. `prepare` comes first."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self._engine: Engine | None = None
        self._roller: Roller | None = None
        self._diagnosticians: dict[str, Desk] = {}

    def prepare(self, directory: str) -> None:
        """Load the policy's folder into an engine."""
        from rlspec.runtime.policies.loading import load

        fields = self.plan.policy.fields
        context = int(fields["context"])
        settings = self.plan.engine.component()
        model, tokenizer = load(Path(directory), fields["precision"], fields["device"])
        renderer = Renderer(tokenizer)
        if isinstance(settings, HfEngineSettings):
            from rlspec.runtime.engines.hf import HfEngine

            self._engine = HfEngine(
                model,
                capacity=settings.slots,
                context=context,
                temperature=1.0,
                max_new_tokens=context,
                stop_tokens=renderer.stop_tokens,
                chunk=settings.chunk,
            )
        else:
            assert isinstance(settings, VllmEngineSettings)
            from rlspec.runtime.engines.vllm import VllmEngine

            self._engine = VllmEngine(
                Path(directory),
                capacity=settings.slots,
                context=context,
                temperature=1.0,
                max_new_tokens=context,
                stop_tokens=renderer.stop_tokens,
            )
        self._roller = Roller(self.plan, self.engine, renderer, context)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("rollout role used before `prepare`")
        return self._engine

    def load_weights(
        self, weights: Mapping[str, Any], version: int, probe: Sequence[int], expected: Sequence[float]
    ) -> None:
        """Take new weights, and prove it: the engine's log-probabilities (nats) of the probe's tokens must be the
        trainer's.

        Raises:
            Refusal: RLC0708, the engine still samples from other weights.
        """
        self.engine.load_weights(weights, version)
        found = self.engine.logprobs([list(probe)])[0]
        gap = max(abs(a - b) for a, b in zip(found[1:], expected[1:], strict=True))
        tolerance = PROBE_TOLERANCE[self.plan.policy.fields["precision"]]
        if not gap <= tolerance or self.engine.version != version:
            raise Refusal(
                "RLC0708",
                f"after the weight update the engine's log-probabilities differ from the trainer's by {gap:.2g} nats",
                "this is a defect of the engine's weight update; use `engine e : hf {}`",
            )

    def timings(self) -> dict[str, float]:
        """Seconds that this worker spent generating, and in worlds, users and judges, since it was last asked."""
        assert self._roller is not None
        spent = dict(self._roller.seconds)
        self._roller.seconds = dict.fromkeys(spent, 0.0)
        return spent

    def run(self, jobs: Sequence[Job], temperature: float, max_new_tokens: int) -> list[Trajectory]:
        """Have these conversations at a temperature."""
        assert self._roller is not None
        self.engine.configure(temperature, max_new_tokens)
        return self._roller.run(jobs)

    def diagnose(self, label: str, cases: Sequence[Case], folder: str) -> list[Said]:
        """What is said of failures of the stage `label`; `folder`: of a policy that was trained for it, or empty."""
        assert self._roller is not None
        if not cases:
            return []
        if label not in self._diagnosticians:
            stage = next(s for s in self.plan.stages if s.label == label).component()
            assert isinstance(stage, Resample)
            roller = self._roller
            self._diagnosticians[label] = Desk(
                stage.feedback,
                self._diagnostician(stage.feedback, folder),
                roller.renderer,
                lambda case: roller.task(case.env, "train", case.task),
                lambda case: roller.desks[case.env].world.system,
            )
        return self._diagnosticians[label].say(cases)

    def _diagnostician(self, says: Feedback, folder: str) -> Diagnostician:
        if says.by == "llm":
            return LlmDiagnostician(says.llm)
        from rlspec.runtime.policies.diagnostician import PolicyDiagnostician

        trained = next(s for s in self.plan.stages if s.label == says.policy).component()
        assert isinstance(trained, Trained)
        return PolicyDiagnostician(folder, trained.context, trained.max_new_tokens, self.plan.policy.fields["device"])
