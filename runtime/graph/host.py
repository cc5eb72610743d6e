"""A host: the process of one bundle, with the roles that the plan puts into it."""

from __future__ import annotations

import os
from typing import Any

from rlspec.compiler.plan import Plan
from rlspec.runtime.graph.memory import usage

ROLES = {
    "rollout": ("rlspec.runtime.graph.rollout_role", "RolloutRole"),
    "trainer": ("rlspec.runtime.graph.trainer_role", "TrainerRole"),
    "scorer": ("rlspec.runtime.graph.scorer_role", "ScorerRole"),
}


class Host:
    """Makes its roles when they are first called. Thread counts are set before torch is imported: two OpenMP threads
    on a busy pair of cores can be many times slower than one, and sums depend on their number in the last bits."""

    def __init__(self, plan_json: str, bundle: int) -> None:
        self.plan = Plan.model_validate_json(plan_json)
        self.bundle = bundle
        self._roles: dict[str, Any] = {}
        threads = self.plan.graph.bundles[bundle].threads
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
            os.environ.setdefault(variable, str(threads))
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    def role(self, name: str) -> Any:
        """The role of that name, made on its first use."""
        if name not in self._roles:
            import importlib

            found = next(r for r in self.plan.graph.roles if r.name == name)
            module, kind = ROLES[found.role]
            self._roles[name] = getattr(importlib.import_module(module), kind)(self.plan, found.rank)
        return self._roles[name]

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Run a method of a role. "host" is the process itself."""
        target = self if name == "host" else self.role(name)
        return getattr(target, method)(*arguments)

    def memory(self) -> tuple[int, int]:
        """See `rlspec.runtime.graph.memory.usage`."""
        return usage()
