"""An estimate for readers: sections of tables, as text, Markdown or JSON; and several estimates side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rlspec.compiler.costs.estimate import Estimate
from rlspec.compiler.costs.fit import GIB, Memory, cures, device_of
from rlspec.compiler.costs.memory import PHASES, Moment, Place, Term, Worker, peaks
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass

WHERE = {"device": "on the GPU", "host": "in main memory"}


@dataclass(frozen=True, slots=True)
class Section:
    """A table with a title. The first column stands left, numbers right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def count(number: float) -> str:
    """12,345; large ones shorter: 1.23 million, 4.1 billion."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(number) >= size:
            return f"{number / size:,.2f} {word}"
    return f"{number:,.0f}"


def memory_text(size: float) -> str:
    """GiB, or MiB below a tenth of one."""
    return f"{size / GIB:,.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.1f} MiB"


def dollars_text(dollars: float | None) -> str:
    if dollars is None:
        return "no price"
    if dollars == 0:
        return "-"
    return f"${dollars:,.2f}" if dollars < 100 else f"${dollars:,.0f}"


def sections(found: Estimate) -> list[Section]:
    """The whole page."""
    out = [_stages(found), _edges(found)]
    if found.known:
        rows = tuple((known.what, known.after) for known in found.known)
        out.append(Section("known only after", ("what", "after"), rows))
    out += [_work(found), _calls(found)]
    out += _memory(found)
    if found.hours is not None:
        out.append(_hours(found))
    return out


def _stages(found: Estimate) -> Section:
    rows = []
    for stage in found.plan.stages:
        start = f"from {stage.policy_from}" if stage.policy_from else "from the policy as declared"
        rows.append((stage.label, stage.name, start))
    return Section("stages", ("stage", "component", "starts"), tuple(rows))


def _edges(found: Estimate) -> Section:
    rows = tuple((edge.source, edge.target, edge.what) for edge in found.plan.graph.edges)
    return Section("edges", ("from", "to", "what"), rows)


def _work(found: Estimate) -> Section:
    rows = []
    for load in found.loads:
        for place, times in (("a step", 1), ("in all", load.steps)):
            if place == "in all" and load.steps == 1:
                continue
            numbers = (load.trajectories, load.tokens, load.sampled, load.shown, load.learned)
            steps = f"{load.steps:,}" if place == "a step" else ""
            label = load.stage if place == "a step" else ""
            rows.append((label, steps, place, *(count(n * times) if n else "-" for n in numbers)))
    notes = ["shown and sampled tokens are bounded apart; together they are at most `tokens`"]
    if found.typical is not None:
        notes = ["dialogues as assumed on the command line, not bounds; memory is still that of the longest"]
    kl = [load.stage for load in found.loads if load.passes]
    notes += [f"`{stage}`: the reference policy reads all tokens of the step once more" for stage in kl]
    columns = ("stage", "steps", "", "trajectories", "tokens", "sampled", "shown", "learned from")
    return Section(f"work, {found.how}", columns, tuple(rows), tuple(notes))


def _calls(found: Estimate) -> Section:
    rows, notes = [], []
    mixed = False
    for load in found.loads:
        for calls in load.calls:
            price = found.dollars(calls)
            model = calls.model or "runs here"
            expected = ""
            if abs(calls.expected - calls.number) > 1e-6 * calls.number:
                expected, mixed = f" ({count(calls.expected)} expected)", True
            who = calls.kind if calls.kind == calls.label else f"{calls.kind} {calls.label}"
            rows.append((
                load.stage, who, model, count(calls.number) + expected, count(calls.number * load.steps),
                count(calls.reads) if calls.model else "-", count(calls.writes) if calls.model else "-",
                dollars_text(price), dollars_text(None if price is None else price * load.steps),
            ))  # fmt: skip
            if calls.tries > 1 and calls.model:
                notes.append(f"a call to {who} that fails is made up to {calls.tries} times; retries are not counted")
    if any(c.model for load in found.loads for c in load.calls):
        rows.append(("in all", "", "", "", "", "", "", "", dollars_text(found.total_dollars or None)))
        notes.append("tokens beside the dialogue (instructions, gold calls) are assumed to be 1,024 of each kind, "
                     "an answer without a limit 1,024")  # fmt: skip
    for stage in found.plan.stages:
        if stage.fields.get("model"):
            notes.append(f"calls of `{stage.label}` to {stage.fields['model']} depend on its data and are not counted")
    if found.unpriced:
        names = ", ".join(found.unpriced)
        notes.append(f"no price for {names}: declare `price p : per_million_tokens {{ model = ... }}` or give --prices")
    if mixed:
        notes.append("expected: when every environment gets its share of the tasks; a step may draw more of one")
    columns = ("stage", "who", "model", "calls a step", "calls in all", "read a step", "written a step", "price a step",
               "price in all")  # fmt: skip
    return Section(f"calls, {found.how}", columns, tuple(rows), tuple(dict.fromkeys(notes)))


def _memory(found: Estimate) -> Iterator[Section]:
    memory, plan = found.memory, found.plan
    workers, device = len(plan.graph.bundles), device_of(plan)
    title = f"memory of one worker, at most ({workers} worker{'s' * (workers != 1)}, {device})"
    if isinstance(memory, str):
        yield Section(title, ("",), (), (memory,))
        return
    rows: list[tuple[str, ...]] = []
    places: tuple[Place, ...] = ("device", "host") if device == "cuda" else ("host",)
    for phase in PHASES:
        for place in places:
            stage, moment = memory.phases(place)[phase]
            named = f"{phase} (`{stage}`)" + (f", {WHERE[place]}" if device == "cuda" else "")
            rows.append((named, memory_text(moment.total(place)), moment.name))
            rows += [(f"  {term.what}", memory_text(term.bytes), "") for term in _terms(moment, place)]
    columns = ("phase", "memory", "largest at")
    shape = memory.shape
    notes = [
        f"policy: {count(shape.parameters)} parameters, {shape.layers} layers of width {shape.width} ({shape.source})",
        f"`{max(memory.stages, key=lambda s: memory.stages[s].tokens)}`: micro-batches of up to "
        f"{max(w.tokens for w in memory.stages.values()):,} tokens; the engine keeps "
        f"{next(iter(memory.stages.values())).slots} conversations of {next(iter(memory.stages.values())).context:,}",
    ]
    notes += list(_limits(memory))
    yield Section(title, columns, tuple(rows), tuple(notes))


def _terms(moment: Moment, place: Place) -> list[Term]:
    """Largest first; what is less than a two-hundredth stays out."""
    own = [t for t in moment.terms if t.place == place and t.bytes >= 0.005 * moment.total(place)]
    return sorted(own, key=lambda term: -term.bytes)


def _limits(memory: Memory) -> Iterator[str]:
    over = {excess.limit.name: excess for excess in memory.excesses()}
    for limit in memory.limits:
        if limit.name in over:
            excess = over[limit.name]
            yield (
                f"DOES NOT FIT: {excess.moment.phase} needs {memory_text(excess.need)} of {limit.name}, "
                f"{memory_text(excess.room)} are usable"
            )
        else:
            most = max(limit.need(m) for w in memory.stages.values() for m in peaks(w, limit.place).values())
            room = limit.bytes * limit.usable
            yield f"fits: at most {memory_text(most)} of {memory_text(room)} usable of {limit.name}"


def _hours(found: Estimate) -> Section:
    hours = found.hours
    assert hours is not None
    rows = []
    for stage in dict.fromkeys((*hours.generating, *hours.training)):
        pair = (hours.generating.get(stage), hours.training.get(stage))
        rows.append((stage, *("-" if h is None else f"{h * hours.per_worker:,.1f}" for h in pair)))
    rows.append(("in all", f"{sum(hours.generating.values()) * hours.per_worker:,.1f}",
                 f"{sum(hours.training.values()) * hours.per_worker:,.1f}"))  # fmt: skip
    wall = hours.total / hours.per_worker / len(found.plan.graph.bundles) if hours.per_worker else 0.0
    note = (f"{hours.total:,.1f} {hours.device}-hours at the declared rates, {wall:,.1f} hours on the clock with all "
            "workers busy; waiting for users, judges and tools is not in them")  # fmt: skip
    return Section(f"{hours.device}-hours, {found.how}", ("stage", "generating", "training"), tuple(rows), (note,))


# ------------------------------------------------------------------------------------------------------------ text


def as_text(found: Estimate) -> str:
    """For a terminal."""
    plan = found.plan
    lines = [f"{plan.name}  {plan.digest[:19]}  {plan.title}"]
    for section in sections(found):
        lines += ["", section.title]
        lines += [f"  {line}" for line in _aligned(section)]
        lines += [f"  = {note}" for note in section.notes]
    return "\n".join(lines)


def _aligned(section: Section) -> list[str]:
    if not section.rows:
        return []
    table = [section.columns, *section.rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(section.columns))]
    right = [all(_numeric(row[i]) for row in section.rows) for i in range(len(section.columns))]
    return [
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in table
    ]


def _numeric(cell: str) -> bool:
    return not cell or cell == "-" or cell[0] in "$0123456789" or cell == "no price"


def as_markdown(found: Estimate) -> str:
    """For a page."""
    out = [f"# {found.plan.name}", "", found.plan.title, ""]
    for section in sections(found):
        out += [f"## {section.title}", ""]
        if section.rows:
            out += ["| " + " | ".join(section.columns) + " |", "|---" * len(section.columns) + "|"]
            out += ["| " + " | ".join(c.strip().replace("|", "\\|") for c in row) + " |" for row in section.rows]
            out.append("")
        out += [f"- {note}" for note in section.notes] + ([""] if section.notes else [])
    return "\n".join(out).rstrip() + "\n"


def as_json(found: Estimate) -> dict[str, Any]:
    """All figures: tokens and calls per step, bytes, US dollars, hours."""
    plan, memory = found.plan, found.memory
    return {
        "name": plan.name,
        "digest": plan.digest,
        "stages": [{"stage": s.label, "component": s.name, "from": s.policy_from} for s in plan.stages],
        "edges": [edge.model_dump() for edge in plan.graph.edges],
        "known_after": [asdict(known) for known in found.known],
        "work": [
            {
                **{k: v for k, v in asdict(load).items() if k != "calls"},
                "calls": [{**asdict(c), "dollars": found.dollars(c)} for c in load.calls],
            }
            for load in found.loads
        ],
        "prices": {model: asdict(price) for model, price in found.prices.items()},
        "unpriced": list(found.unpriced),
        "dollars": found.total_dollars,
        "memory": memory if isinstance(memory, str) else _memory_json(memory),
        "hours": None if found.hours is None else {**asdict(found.hours), "total": found.hours.total},
    }


def _memory_json(memory: Memory) -> dict[str, Any]:
    def moment_json(moment: Moment) -> dict[str, Any]:
        return {
            "at": moment.name,
            "bytes": moment.total(),
            "device_bytes": moment.total("device"),
            "host_bytes": moment.total("host"),
            "terms": [asdict(term) for term in moment.terms],
        }

    def stage_json(worker: Worker) -> dict[str, Any]:
        return {phase: moment_json(moment) for phase, moment in peaks(worker).items()}

    return {
        "shape": {**asdict(memory.shape), "parameters": memory.shape.parameters},
        "stages": {label: stage_json(worker) for label, worker in memory.stages.items()},
        "limits": [asdict(limit) for limit in memory.limits],
        "exceeded": [
            {"limit": e.limit.name, "stage": e.stage, "phase": e.moment.phase, "need": e.need, "usable": e.room,
             "cures": cures(memory, e)}
            for e in memory.excesses()
        ],
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------- side by side


def figures(found: Estimate) -> dict[str, str]:
    """The figures that comparing experiments needs, by name."""
    out = {}
    for load in found.loads:
        out[f"{load.name} {load.stage}: steps"] = f"{load.steps:,}"
        out[f"{load.name} {load.stage}: trajectories a step"] = count(load.trajectories)
        out[f"{load.name} {load.stage}: tokens in all"] = count(load.tokens * load.steps)
        out[f"{load.name} {load.stage}: sampled in all"] = count(load.sampled * load.steps)
        for kind in ("user", "judge", "tools"):
            number = sum(c.number for c in load.calls if c.kind == kind)
            if number:
                out[f"{load.name} {load.stage}: {kind} calls a step"] = count(number)
    for kind in ("user", "judge", "tools"):
        out[f"{kind} calls in all"] = count(found.total_calls(kind)) if found.total_calls(kind) else "-"
    out["price in all"] = dollars_text(found.total_dollars) + (" and what has no price" if found.unpriced else "")
    if isinstance(found.memory, Memory):
        for place in ("device", "host") if device_of(found.plan) == "cuda" else ("host",):
            for phase, (_, moment) in found.memory.phases(place).items():
                out[f"memory of a worker: {phase}, {WHERE[place]}"] = memory_text(moment.total(place))
        out["fits"] = "no" if found.memory.excesses() else "yes" if found.memory.limits else "no memory is declared"
    if found.hours is not None:
        out[f"{found.hours.device}-hours"] = f"{found.hours.total:,.1f}"
    return out


def side_by_side(found: Sequence[Estimate], names: Sequence[str]) -> Section:
    """A row per figure, a column per estimate; stages of one label share their rows."""
    columns = [figures(estimate) for estimate in found]
    stages = {f"{load.name} {load.stage}" for estimate in found for load in estimate.loads}
    keys = sorted(
        dict.fromkeys(key for column in columns for key in column), key=lambda key: key.partition(":")[0] not in stages
    )
    rows = tuple((key, *(column.get(key, "-") for column in columns)) for key in keys)
    return Section(found[0].how, ("figure", *names), rows)


def section_text(section: Section) -> str:
    return "\n".join(_aligned(section))


def section_markdown(section: Section) -> str:
    lines = ["| " + " | ".join(section.columns) + " |", "|---" * len(section.columns) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in section.rows)])
