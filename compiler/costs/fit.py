"""Memory of a plan's workers against what its resources declare, and what would make them fit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlspec.compiler.catalog.machine import DEVICE_MEMORY
from rlspec.compiler.costs.architecture import Architecture, architecture_of
from rlspec.compiler.costs.memory import Moment, Place, Worker, moments, peaks
from rlspec.compiler.costs.workload import context_of
from rlspec.compiler.experiment import Experiment
from rlspec.compiler.plan import Plan, StagePlan
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass, replace
from rlspec.dsl.diagnostics import Diagnostic

CODE = "RLC0529"
GIB = 2**30
PROCESS = round(0.55 * GIB)
"""A worker process before it holds a policy: Python, torch, transformers (measured, Linux, CPU build)."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A memory that is declared, in bytes, and how many workers share it. `usable` is the share to plan with."""

    name: str
    place: Place
    bytes: int
    workers: int
    usable: float

    def need(self, moment: Moment) -> int:
        """Bytes of it at a moment, when all its workers are there at once."""
        own = moment.total(self.place) + (PROCESS if self.place == "host" else 0)
        return self.workers * own


@dataclass(frozen=True, slots=True)
class Excess:
    """A phase that does not fit: `need` bytes where `room` are usable."""

    limit: Limit
    stage: str
    moment: Moment
    need: int
    room: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a plan. `stages` are its training stages' workers (of a plan without training, one that only
    generates); `shape` is the policy's."""

    shape: Architecture
    stages: dict[str, Worker]
    limits: tuple[Limit, ...]

    def phases(self, place: Place) -> dict[str, tuple[str, Moment]]:
        """The largest moment of each phase over all stages, counted in one place, with its stage."""
        out: dict[str, tuple[str, Moment]] = {}
        for label, worker in self.stages.items():
            for phase, moment in peaks(worker, place).items():
                if phase not in out or moment.total(place) > out[phase][1].total(place):
                    out[phase] = (label, moment)
        return out

    def excesses(self) -> list[Excess]:
        """Of each declared memory the phase that exceeds it most, worst first."""
        found = []
        for limit in self.limits:
            over = [
                Excess(limit, label, moment, limit.need(moment), int(limit.bytes * limit.usable))
                for label, worker in self.stages.items()
                for moment in moments(worker)
            ]
            worst = max(over, key=lambda e: e.need)
            if worst.need > worst.room:
                found.append(worst)
        return sorted(found, key=lambda e: e.room - e.need)


def memory_of(plan: Plan, read_files: bool = True) -> Memory | str:
    """The memory of a plan's workers, or the reason why nothing can be said of it."""
    shape = architecture_of(plan.policy, read_files)
    if isinstance(shape, str):
        return shape
    training = [s for s in plan.stages if "micro_batch" in s.fields]
    stages = {s.label: _worker(plan, shape, s) for s in training}
    if not stages:
        return "no stage trains"
    return Memory(shape, stages, tuple(_limits(plan)))


def device_of(plan: Plan) -> str:
    """`cuda` or `cpu`: where a worker's tensors are, as far as the spec says."""
    wanted = plan.policy.fields.get("device", "auto")
    bundle = plan.graph.bundles[0]
    return "cuda" if wanted == "cuda" or (wanted == "auto" and bundle.gpus > 0) else "cpu"


def _worker(plan: Plan, shape: Architecture, stage: StagePlan) -> Worker:
    fields, workers = stage.fields, len(plan.graph.bundles)
    context, budget = context_of(plan), next(b for b in plan.budget if b.stage == stage.label)
    per_rank = math.ceil(budget.trajectories / int(fields.get("updates_per_step", 1)) / workers)
    tokens = min(max(int(fields["micro_batch"]), context), per_rank * context)
    slots = int(plan.engine.fields.get("slots", 1))
    return Worker(
        shape=shape,
        precision=str(plan.policy.fields["precision"]),
        device="cuda" if device_of(plan) == "cuda" else "cpu",
        engine=plan.engine.name,
        slots=slots,
        context=int(plan.policy.fields.get("context", context)),
        tokens=tokens,
        learned=tokens,
        micro_batches=math.ceil(per_rank * context / tokens),
        prompts=min(slots, math.ceil(budget.trajectories / workers)),
        prompt=context,
        ranks=workers,
        models=int((fields.get("kl") or {}).get("coefficient", 0) > 0),
        critics=int(bool(fields.get("critic"))),
    )


def _limits(plan: Plan) -> Iterator[Limit]:
    given: dict[str, Any] = plan.resources.fields if plan.resources is not None else {}
    workers, bundle = len(plan.graph.bundles), plan.graph.bundles[0]
    usable = float(given.get("usable", 1.0))
    device = float(given.get("device_memory", 0.0)) * GIB or DEVICE_MEMORY.get(given.get("device", ""), 0.0) * 1e9
    if device and device_of(plan) == "cuda":
        shared = min(workers, math.floor(1 / bundle.gpus)) if 0 < bundle.gpus < 1 else 1
        yield Limit("device_memory", "device", int(device), shared, usable)
    if one := float(given.get("worker_memory", 0.0)):
        yield Limit("worker_memory", "host", int(one * GIB), 1, usable)
    if whole := float(given.get("host_memory", 0.0)):
        yield Limit("host_memory", "host", int(whole * GIB), workers, usable)


# --------------------------------------------------------------------------------------------------- what would fit


def cures(memory: Memory, excess: Excess) -> list[str]:
    """Changes that would make it fit: single ones that do, or all together, or what the whole policy needs at least."""
    single = [text for text, changed, limit in _changes(memory, excess) if _fits(changed, limit)]
    if single:
        return single
    texts: list[str] = []
    workers, limit = memory.stages, excess.limit
    for text, changed, new_limit in _changes(memory, excess):
        least = max(limit.need(m) for w in workers.values() for m in moments(w))
        merged = {label: _merge(workers[label], memory.stages[label], changed[label]) for label in workers}
        limit = new_limit if new_limit != excess.limit else limit
        if max(limit.need(m) for w in merged.values() for m in moments(w)) < least:
            workers, texts = merged, [*texts, text]
            if _fits(workers, limit):
                return [", and ".join(texts)]
    least = max(limit.need(m) for w in workers.values() for m in moments(w))
    room = least / limit.usable / GIB
    return [
        f"no setting does: every worker holds the whole policy, so take {limit.name} of {room:,.0f} GiB or more"
        + (f" (with {', '.join(texts)})" if texts else "")
        + ", or a smaller policy"
    ]


def _changes(memory: Memory, excess: Excess) -> Iterator[tuple[str, dict[str, Worker], Limit]]:
    """Settings that take less, each alone: its text, the changed workers, the limit then."""
    workers, limit = memory.stages, excess.limit
    any_ = next(iter(workers.values()))

    def each(**changes: Any) -> dict[str, Worker]:
        return {label: replace(worker, **changes) for label, worker in workers.items()}

    context = any_.context
    if any(w.tokens > context for w in workers.values()):
        smaller = {k: replace(w, tokens=min(w.tokens, context), learned=min(w.learned, context), micro_batches=2)
                   for k, w in workers.items()}  # fmt: skip
        yield f"micro_batch = {context}tokens", smaller, limit
    slots = any_.slots
    while slots > 1:
        slots //= 2
        changed = each(slots=slots, prompts=min(any_.prompts, slots))
        if _fits(changed, limit) or slots == 1:
            yield f"slots = {slots}conversations in the engine", changed, limit
            break
    if any_.precision == "float32":
        yield "precision = bfloat16 in the policy", each(precision="bfloat16"), limit
    if limit.workers > 1 or any_.ranks > 1:
        alone = replace(limit, workers=1)
        if limit.place == "host":
            yield "workers = 1", each(ranks=1), alone
        else:
            yield "gpus_per_worker = 1", each(), alone
    shorter = context // 2
    if shorter >= 256:
        halved = {k: replace(w, context=shorter, tokens=min(w.tokens, max(shorter, w.tokens // 2)),
                             learned=min(w.learned, max(shorter, w.tokens // 2)), prompt=min(w.prompt, shorter))
                  for k, w in workers.items()}  # fmt: skip
        yield f"context = {shorter}tokens in the policy", halved, limit


def _merge(now: Worker, before: Worker, changed: Worker) -> Worker:
    """`now` with what `changed` has changed against `before`."""
    names = Worker.__slots__
    new = {n: getattr(changed, n) for n in names if getattr(changed, n) != getattr(before, n)}
    return replace(now, **new)


def _fits(workers: dict[str, Worker], limit: Limit) -> bool:
    room = limit.bytes * limit.usable
    return all(limit.need(moment) <= room for worker in workers.values() for moment in moments(worker))


def diagnostics(memory: Memory, span: tree.Span | None = None) -> list[Diagnostic]:
    """One error for each declared memory that is exceeded: the phase, what dominates, what would make it fit. `span` is
    the declaration of the resources."""
    return [_refusal(memory, excess, span) for excess in memory.excesses()]


def _refusal(memory: Memory, excess: Excess, span: tree.Span | None) -> Diagnostic:
    limit, moment = excess.limit, excess.moment
    largest = sorted((t for t in moment.terms if t.place == limit.place), key=lambda t: -t.bytes)[:3]
    shared = f" for {limit.workers} workers" if limit.workers > 1 else ""
    message = (
        f"the {moment.phase} phase of `{excess.stage}` needs {_gib(excess.need)} of {limit.name}{shared}, "
        f"{_gib(excess.room)} are usable"
    )
    found = cures(memory, excess)
    notes = (
        f"most of it, at {moment.name}: " + ", ".join(f"{t.what} {_gib(t.bytes)}" for t in largest),
        found[0] if found[0].startswith("no setting") else "it fits with " + "; or with ".join(found),
        f"the policy's shape: {memory.shape.source}",
    )
    label = f"{limit.name} is {_gib(limit.bytes)}, {limit.usable:.0%} of it to be used"
    return Diagnostic(CODE, message, span, label=label, notes=notes)


def _gib(size: float) -> str:
    return f"{size / GIB:,.2f} GiB" if size < 10 * GIB else f"{size / GIB:,.1f} GiB"


def report_excess(experiment: Experiment, plan: Plan, report: list[Diagnostic], read_files: bool = False) -> None:
    """Report what cannot fit the memory that a spec declares. The check reads no files: the shape of a model in a local
    folder is for the commands to find."""
    declared = next(iter(experiment.of("resources").values()), None)
    if declared is None or not any(_limits(plan)):
        return
    memory = memory_of(plan, read_files)
    if not isinstance(memory, str):
        report += diagnostics(memory, declared.item.head.span)
