"""Experiments side by side: one row per role, one column per experiment.

A cell says what a reader compares first: the component with the fields that are not its defaults, formulas in normal
form, the stages in order, what a training run counts. `fields` gives one row per leaf instead, those that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.compiler.align import align
from rlspec.compiler.catalog import schema
from rlspec.compiler.digests import Side
from rlspec.compiler.edits import Edit
from rlspec.compiler.form import WIRED, Form, Path
from rlspec.compiler.notation import formula_text
from rlspec.compiler.records import Undefined
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One row: its role, what it is about, and a list of values for each experiment (empty where it has none)."""

    role: str
    what: str
    cells: tuple[tuple[Any, ...], ...]

    @property
    def same(self) -> bool:
        return all(cell == self.cells[0] for cell in self.cells)


def summary(sides: Sequence[Side]) -> list[Line]:
    """A row per role."""
    rows = [Line(kind, kind, tuple(tuple(_parts(s.form, kind)) for s in sides)) for kind in ("policy", "env")]
    for kind in ("user", "judge"):
        rows.append(Line(kind, kind, tuple(tuple(_parts(s.form, kind)) for s in sides)))
    rows.append(Line("signal", "signal", tuple(tuple(_signals(s.form)) for s in sides)))
    for kind in ("reward", "advantage"):
        rows.append(Line(kind, kind, tuple(tuple(_formulas(s.form, kind)) for s in sides)))
    if any(p[0] == "credit" for s in sides for p in s.form.formulas):
        rows.append(Line("credit", "credit", tuple(tuple(_credit(s.form)) for s in sides)))
    rows.append(Line("optimisation", "stages", tuple((" -> ".join(_stages(s.form)),) for s in sides)))
    for role in ("optimisation", "budget"):
        rows.append(Line(role, role, tuple(tuple(_stage_fields(s.form, role)) for s in sides)))
    rows.append(Line("budget", "trajectories", tuple(tuple(_trajectories(s)) for s in sides)))
    return [r for r in rows if any(r.cells)]


def fields(sides: Sequence[Side], everything: bool = False) -> list[Line]:
    """A row per leaf and formula, aligned by role with the first experiment; only those that differ, or all."""
    forms = [sides[0].form, *(s.form.renamed(align(sides[0].form, s.form)) for s in sides[1:])]
    paths = dict.fromkeys(p for form in forms for p in (*form.leaves, *form.formulas))
    rows = []
    for path in paths:
        edit = Edit("set", path)
        row = Line(edit.role, edit.where, tuple(_cell(form, path) for form in forms))
        if everything or not row.same:
            rows.append(row)
    return rows


def _cell(form: Form, path: Path) -> tuple[Any, ...]:
    if path in form.formulas:
        return (formula_text(path[0], form.formulas[path]),)
    return (form.leaves[path],) if path in form.leaves else ()


def _parts(form: Form, kind: str) -> list[Any]:
    out = []
    for label in form.labels(kind):
        name = form.leaves[kind, label]
        entry = {kind: name, **_chosen(form, (kind, label), kind, name)}
        share = form.leaves.get(("mix", label), 1) if kind == "env" else 1
        out.append(entry if share == 1 else {**entry, "share": share})
    return out


def _chosen(form: Form, root: Path, kind: str, name: str) -> dict[str, Any]:
    """The fields of a component that are not its defaults."""
    known = schema(kind, name).model_fields
    defaults: dict[str, Any] = {}
    for field_name, info in known.items():
        default = info.get_default(call_default_factory=True)
        if default is not Undefined:
            _flatten(defaults, field_name, default)
    out = {}
    for path, value in form.leaves.items():
        dotted = ".".join(path[2:])
        if path[:2] == root and dotted and path[-1] not in WIRED and defaults.get(dotted, Undefined) != value:
            out[dotted] = value
    return out


def _flatten(out: dict[str, Any], name: str, value: Any) -> None:
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            _flatten(out, f"{name}.{key}", inner)
    else:
        out[name] = list(value) if isinstance(value, tuple) else value


def _signals(form: Form) -> list[str]:
    found = {f"{p[1]} = {v}": None for p, v in form.leaves.items() if p[0] == "signal"}
    return list(found)


def _formulas(form: Form, kind: str) -> list[str]:
    texts: dict[str, list[str]] = {}
    for path, whole in form.formulas.items():
        if path[0] == kind:
            texts.setdefault(f"{path[1]} = {formula_text(kind, whole)}", []).append(path[2])
    envs = len(form.labels("env"))
    return [text if len(on) == envs else f"on {', '.join(on)}: {text}" for text, on in texts.items()]


def _credit(form: Form) -> list[str]:
    return [text.replace("where = ", "where ", 1) for text in _formulas(form, "credit")] or ["every token of the agent"]


def _stages(form: Form) -> list[str]:
    return [str(form.leaves["stage", label]) for label in form.labels("stage")]


def _stage_fields(form: Form, role: str) -> list[Any]:
    out = []
    for label in form.labels("stage"):
        name = form.leaves["stage", label]
        chosen = _chosen(form, ("stage", label), "stage", name)
        kept = {k: v for k, v in chosen.items() if Edit("set", ("stage", label, *k.split("."))).role == role}
        if kept:
            out.append({"stage": name, **kept})
    return out


def _trajectories(side: Side) -> list[str]:
    return [f"{b.stage}: {b.trajectories:,} x {b.steps:,}" for b in side.plan.budget]
