"""The whole answer of `rlc plan`: what an experiment does, what it costs, and whether it fits.

found = estimate(plan, prices)
found.loads, found.money, found.memory, found.hours
"""

from __future__ import annotations

from collections.abc import Mapping

from rlspec.compiler.costs.charges import Price, declared_prices, unpriced
from rlspec.compiler.costs.fit import Memory, device_of, memory_of
from rlspec.compiler.costs.workload import Calls, StageLoad, Typical, loads
from rlspec.compiler.plan import Plan
from rlspec.dsl.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """A value that is not known before the run: its name, and after what it is (`calibrate`, "each step")."""

    what: str
    after: str


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of all workers together, at most, for what has a declared rate; per stage generating and training. `device`
    is what one hour of a worker is an hour of."""

    generating: dict[str, float]
    training: dict[str, float]
    per_worker: float
    device: str

    @property
    def total(self) -> float:
        """Hours of devices."""
        return (sum(self.generating.values()) + sum(self.training.values())) * self.per_worker


@dataclass(frozen=True, slots=True)
class Estimate:
    """See the module. `memory` is a text when nothing can be said of it; `hours` is None without a declared rate.
    `prices` are those in force; `unpriced` are models without one."""

    plan: Plan
    loads: tuple[StageLoad, ...]
    known: tuple[Known, ...]
    prices: Mapping[str, Price]
    unpriced: tuple[str, ...]
    memory: Memory | str
    hours: Hours | None
    typical: Typical | None = None

    @property
    def how(self) -> str:
        """What the figures of work, calls and hours are."""
        if self.typical is None:
            return "at most"
        return f"with dialogues of {self.typical.turns} turns and {self.typical.tokens:,} tokens"

    def dollars(self, calls: Calls) -> float | None:
        """Dollars of one step's calls at most; None without a price."""
        if not calls.model:
            return 0.0
        price = self.prices.get(calls.model)
        return None if price is None else price.of(calls)

    @property
    def total_dollars(self) -> float:
        """Dollars of the whole run at most, as far as there are prices."""
        return sum((self.dollars(c) or 0.0) * load.steps for load in self.loads for c in load.calls)

    def total_calls(self, kind: str) -> int:
        """Calls of the whole run at most."""
        return sum(c.number * load.steps for load in self.loads for c in load.calls if c.kind == kind)


def estimate(
    plan: Plan, prices: Mapping[str, Price] | None = None, typical: Typical | None = None, read_files: bool = True
) -> Estimate:
    """Everything that can be said before the run; `prices` win over those of the plan. With `typical` dialogues, work
    and calls are those that they give, and no bounds; memory is always for the longest."""
    found = loads(plan, typical)
    table = {**declared_prices(plan), **(prices or {})}
    return Estimate(
        plan=plan,
        loads=tuple(found),
        known=tuple(_known(plan)),
        prices=table,
        unpriced=tuple(unpriced((c for load in found for c in load.calls), table)),
        memory=memory_of(plan, read_files),
        hours=_hours(plan, found),
        typical=typical,
    )


def _known(plan: Plan) -> list[Known]:
    """Values that a stage finds or a step decides, as the plan's programs read them, and the weights."""
    out: dict[str, Known] = {}
    for source in plan.sources:
        for step in source.program.steps:
            table = step.attrs.get("table") if step.op == "lookup" else None
            if isinstance(table, str):
                size = step.attrs.get("size")
                what = f"{table}, {size} values" if size else table
                out.setdefault(table, Known(what, table.partition(".")[0]))
            if step.op == "anneal":
                out.setdefault("step", Known("annealed weights of the reward", "each step"))
    trained = [s for s in plan.stages if "lr" in s.fields]
    for stage in trained:
        what = "what the diagnostician says" if stage.name == "diagnostician" else "the policy's weights"
        out[stage.label] = Known(what, stage.label)
    return list(out.values())


def _hours(plan: Plan, found: list[StageLoad]) -> Hours | None:
    """Tokens over declared rates, at most: waiting for users, judges and tools is not in them."""
    given = plan.resources.fields if plan.resources is not None else {}
    sampling, learning = float(given.get("generation_rate", 0.0)), float(given.get("training_rate", 0.0))
    if not sampling and not learning:
        return None
    bundle = plan.graph.bundles[0]
    cuda = device_of(plan) == "cuda"
    generating = {
        load.stage: load.sampled * load.steps / sampling / 3600 for load in found if sampling and load.sampled
    }
    training = {
        load.stage: load.tokens * load.steps * (1 + load.passes / 3) / learning / 3600
        for load in found
        if learning and load.learned
    }
    return Hours(generating, training, bundle.gpus if cuda else bundle.cpus, "GPU" if cuda else "core")
