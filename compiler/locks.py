"""Locks: what an experiment stood on when it was locked, and values that are pinned.

`x.rlspec.lock` stands beside `x.rlspec` and is JSON:

    spec      syntax digest of the file, of what it extends, and of the files of definitions that it uses
    value     value digest of the experiment as it stands: moves with defaults of another rlspec, too
    library   definitions of the standard library that its formulas reach
    plugins   each with its distribution and the digest of its schema
    data      files and folders that fields name, by content; names on a hub and of endpoints are not known here
    pinned    tables of stages, found by a run: with the lock the stage is left out and its table stands for it

No path of the machine, time or host enters a lock, so it is the same wherever it is made. Secrets are names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlspec.compiler.binding import bind, tables_of
from rlspec.compiler.catalog import schema
from rlspec.compiler.check import Checked, check
from rlspec.compiler.contents import content, named_files
from rlspec.compiler.digests import item_digest, syntax_digest
from rlspec.compiler.flatten import calls
from rlspec.compiler.form import form_of
from rlspec.compiler.library import standard
from rlspec.compiler.plan import Plan
from rlspec.dsl import parser
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass, replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError

FORMAT = "rlspec.lock/1"
PARTS = ("spec", "value", "library", "plugins", "data")
RESULTS = "rlspec.results/1"


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned table: a value per choice of the signal that the stage names, and the run's plan that found it."""

    values: dict[str, float]
    found_by: str


def lock_path(spec: Path) -> Path:
    """Where a spec's lock stands."""
    return spec.with_name(f"{spec.name}.lock")


def lock_of(source: Source) -> dict[str, Any]:
    """What an experiment stands on, without pins.

    Raises:
        SpecError: it has errors, or a file that it names cannot be read.
    """
    found = check(source)
    if found.plan is None or found.experiment is None:
        raise SpecError(d if d.source is not None else replace(d, source=source) for d in found.errors)
    folder = Path(source.path).parent
    files = {s.path: s for s in (source, *(s for _, s in found.composition.sources))}
    return {
        "format": FORMAT,
        "spec": {_relative(path, folder): syntax_digest(parser.parse(s)[0]) for path, s in sorted(files.items())},
        "value": form_of(found.plan).digest,
        "library": {name: item_digest(standard()[name]) for name in sorted(_reached(found))},
        "plugins": {p.name: {"origin": p.origin, "schema": p.digest} for p in found.plan.plugins},
        "data": {name: content(path) for name, path in sorted(_data(found.plan, folder).items())},
    }


def read_lock(spec: Path) -> dict[str, Any]:
    """A spec's lock.

    Raises:
        SpecError: RLC0713 there is none, or it is none of this version.
    """
    path = lock_path(spec)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _refused(f"{spec} has no lock", "make one with `rlc lock`") from error
    except (OSError, ValueError) as error:
        raise _refused(f"{path} cannot be read: {error}", "make it again with `rlc lock`") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT or any(part not in body for part in PARTS):
        raise _refused(f"{path} is no lock of this version", "make it again with `rlc lock`")
    return body


def lock_text(lock: Mapping[str, Any]) -> str:
    return json.dumps(lock, indent=1, ensure_ascii=True) + "\n"


def moved(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not as it was locked, a line each; empty when everything is."""
    out: list[str] = []
    for part in ("spec", "library", "plugins", "data"):
        was, there = before[part], now[part]
        for name in sorted(was.keys() | there.keys()):
            if was.get(name) != there.get(name):
                out.append(f"{part} {name}: {_shown(was.get(name))} -> {_shown(there.get(name))}")
    if before["value"] != now["value"]:
        why = "" if out else ", with the same files: another rlspec has other defaults"
        out.append(f"value of the experiment: {_shown(before['value'])} -> {_shown(now['value'])}{why}")
    return out


def verify(source: Source) -> dict[str, Any]:
    """The lock of a spec, after making sure that it holds.

    Raises:
        SpecError: RLC0713, with what moved; or the spec's own errors.
    """
    spec = Path(source.path)
    lock = read_lock(spec)
    changes = moved(lock, lock_of(source))
    if changes:
        raise _refused(f"{spec} is not as it was locked", "if the change is meant: `rlc lock` again", changes)
    return lock


def _refused(message: str, cure: str, changes: Sequence[str] = ()) -> SpecError:
    return SpecError([Diagnostic("RLC0713", message, notes=(*changes, cure))])


def _shown(value: Any) -> str:
    if value is None:
        return "not there"
    text = value["schema"] if isinstance(value, dict) else str(value)
    return text[:15]


# ------------------------------------------------------------------------------------------------------------ pins


def results_in(run: Path) -> dict[str, Pin]:
    """Every table that a run's stages have found: `calibrate.weight` -> its values.

    Raises:
        SpecError: RLC0705 there are no results, RLC0706 a file of them is damaged.
    """
    files = sorted((run / "results").glob("*.json"))
    if not files:
        message = f"{run} holds no results of a stage (`results/<stage>.json`)"
        raise SpecError([Diagnostic("RLC0705", message, notes=("a stage writes them when it ends",))])
    digest = _plan_digest(run)
    out: dict[str, Pin] = {}
    for path in files:
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            if body["format"] != RESULTS:
                raise ValueError(f"format {body['format']!r}")
            for name, values in body["results"].items():
                out[f"{body['stage']}.{name}"] = Pin({str(k): float(v) for k, v in values.items()}, digest)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SpecError([Diagnostic("RLC0706", f"{path} is damaged: {error}")]) from error
    return out


def unproven(run: Path) -> list[Diagnostic]:
    """RLC0533 for each table of a run in which some choice has a weight without evidence: by the report beside it, it
    occurred in every trajectory of the last round or in none."""
    out = []
    for path in sorted((run / "results").glob("*.json")):
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            rounds = body.get("report", {}).get("rounds", [])
            rows = rounds[-1]["rows"] if rounds else []
            missing = [row for row in rows if not row["evidence"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # `results_in` says what is wrong with the file
        if missing:
            named = ", ".join(f"`{row['choice']}`" for row in missing)
            told = [f"{row['choice']}: in {row['share']:.0%} of {row['trajectories']} trajectories" for row in missing]
            message = f"`{body['stage']}` found no evidence for {named}: what is pinned for it is 0 and says nothing"
            out.append(Diagnostic("RLC0533", message, severity="warning", notes=tuple(told)))
    return out


def _plan_digest(run: Path) -> str:
    try:
        return str(json.loads((run / "versions.json").read_text(encoding="utf-8"))["plan_digest"])
    except (OSError, ValueError, KeyError):
        return ""


def frozen(lock: Mapping[str, Any], pins: Mapping[str, Pin]) -> dict[str, Any]:
    """The lock with these tables pinned, in place of older pins of their names."""
    new = {name: {"values": pin.values, "found_by": pin.found_by} for name, pin in sorted(pins.items())}
    return {**lock, "pinned": {**lock.get("pinned", {}), **new}}


def pins_of(lock: Mapping[str, Any]) -> dict[str, Pin]:
    return {name: Pin(entry["values"], entry["found_by"]) for name, entry in lock.get("pinned", {}).items()}


def pinned(plan: Plan, pins: Mapping[str, Pin]) -> Plan:
    """The plan with the tables of its stages filled in. A stage all of whose results are pinned is left out.

    Raises:
        SpecError: RLC0713, a pinned table does not fit what the plan reads.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for stage in plan.stages:
        component = stage.component()
        for name in component.RESULTS:
            label = getattr(component, "signal", "")
            choices = next((s.choices for p in plan.sources for s in p.signals if s.name == label), ())
            wanted[f"{stage.label}.{name}"] = choices
    strange = [name for name in pins if name not in wanted]
    if strange:
        raise _refused(f"`{strange[0]}` is pinned, but no stage of the spec finds it", "freeze another run")
    tables: dict[str, list[float]] = {}
    for name, pin in pins.items():
        choices = wanted[name] or tuple(pin.values)
        if set(choices) != pin.values.keys():
            message = f"`{name}` is pinned for {', '.join(pin.values)}; the spec has {', '.join(choices)}"
            raise _refused(message, "freeze a run of this spec")
        tables[name] = [pin.values[choice] for choice in choices]
    done = {s.label for s in plan.stages if (r := s.component().RESULTS) and all(f"{s.label}.{n}" in pins for n in r)}
    sources = tuple(s.model_copy(update={"program": bind(s.program, tables)}) for s in plan.sources)
    stages, start = [], {s.label: s.policy_from for s in plan.stages}
    for stage in plan.stages:
        before = stage.policy_from
        while before in done:
            before = start[before]
        if stage.label not in done:
            stages.append(stage.model_copy(update={"policy_from": before}))
    graph = plan.graph
    edges = tuple(e for e in graph.edges if not {e.source.partition("/")[0], e.target.partition("/")[0]} & done)
    return plan.model_copy(
        update={
            "sources": sources,
            "stages": tuple(stages),
            "graph": graph.model_copy(update={"edges": edges}),
            "budget": tuple(b for b in plan.budget if b.stage not in done),
        }
    )


def still_open(plan: Plan) -> list[str]:
    """Tables that a plan's programs wait for."""
    return sorted({name for source in plan.sources for name in tables_of(source.program)})


# ------------------------------------------------------------------------------------------- what a spec stands on


def _reached(found: Checked) -> set[str]:
    """The definitions of the standard library that formulas call, directly or through others."""
    assert found.experiment is not None
    library, out = standard(), set()
    roots: list[Any] = [f.expression for f in found.experiment.formulas]
    roots += [i.value for i in found.experiment.definitions.values()]
    todo = [name for root in roots for name in calls(root)]
    while todo:
        name = todo.pop()
        if name in library and name not in out:
            out.add(name)
            inner = list(calls((library[name].value, *(p.default for p in library[name].head.parameters or ()))))
            todo += inner + [f"std.{n}" for n in inner]
    return out


def _data(plan: Plan, folder: Path) -> dict[str, Path]:
    """Files and folders that text fields name, beside the spec or where rlc was called."""
    out: dict[str, Path] = {}
    for kind, name, fields in _parts(plan):
        out |= dict(named_files(schema(kind, name), fields, folder, Path()))
    return out


def _parts(plan: Plan) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for part in (plan.policy, plan.engine, *plan.envs, *plan.users, *plan.judges, *plan.parts):
        yield part.kind, part.name, part.fields
    for stage in plan.stages:
        yield "stage", stage.name, stage.fields


def _relative(path: str, folder: Path) -> str:
    return os.path.relpath(path, folder or ".").replace(os.sep, "/")
