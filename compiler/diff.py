"""What differs between two experiments: the first level that differs, then every edit, by role.

found = difference(side_of(read("a.rlspec")), side_of(read("b.rlspec")))
found.level       # "same graph, other values"
found.edits       # stage.train.lr: 0.0003 -> 0.0004
found.verified    # the edits, applied to the first, give the second's value digest
"""

from __future__ import annotations

from rlspec.compiler.align import align
from rlspec.compiler.digests import Digests, Side
from rlspec.compiler.edits import Edit, apply, edits_between
from rlspec.compiler.form import PER_ENV, Form, Path
from rlspec.compiler.sourcing import Sourcing, sources_of, statements
from rlspec.dsl.annotations import Any, Literal
from rlspec.dsl.dataclass import dataclass, field

Level = Literal["identical", "same meaning", "formatting only", "refactoring only", "same graph, other values",
                "other graph"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """An edit for people: what several environments share is said once. `assumed` when one of the two values is an
    assumption of the spec's author."""

    where: str
    role: str
    edit: Edit
    old_source: Sourcing | None = None
    new_source: Sourcing | None = None

    @property
    def assumed(self) -> bool:
        return any(s is not None and s.kind == "assumed" for s in (self.old_source, self.new_source))


@dataclass(frozen=True, slots=True)
class Confounded:
    """What is learned from and how it is learned changed together: no effect can be ascribed to one of them."""

    aims: tuple[str, ...]
    means: tuple[str, ...]


@dataclass(slots=True)
class Difference:
    """See the module. `provenance` are leaves of equal value and another origin; `stated` what an experiment says about
    itself (title, claims, declared ranges) without changing what it does."""

    a: Side
    b: Side
    digests: tuple[Digests, Digests]
    level: Level
    edits: list[Edit]
    rows: list[Row]
    verified: bool
    confounded: Confounded | None = None
    provenance: list[tuple[str, Sourcing | None, Sourcing | None]] = field(default_factory=list)
    stated: list[tuple[str, str | None, str | None]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether both mean the same."""
        return self.digests[0].value == self.digests[1].value


def difference(a: Side, b: Side) -> Difference:
    """Compare two experiments."""
    to_a = align(a.form, b.form)
    moved = b.form.renamed(to_a)
    edits = edits_between(a.form, moved, {(kind, old): new for (kind, new), old in to_a.items()})
    digests = a.digests, b.digests
    verified = apply(a.form, edits).digest == digests[1].value
    ours, theirs = sources_of(a.experiment), sources_of(b.experiment)
    theirs = {_renamed(path, to_a): sourcing for path, sourcing in theirs.items()}
    return Difference(
        a, b, digests,
        level=_level(a, b, moved, digests),
        edits=edits,
        rows=_rows(edits, a.form, moved, ours, theirs),
        verified=verified,
        confounded=_confounded(edits, a.form, moved),
        provenance=_provenance(a, b, moved, ours, theirs),
        stated=statements(a.experiment, b.experiment),
    )  # fmt: skip


def _renamed(path: Path, names: dict[tuple[str, str], str]) -> Path:
    return (path[0], names.get((path[0], path[1]), path[1]), *path[2:]) if len(path) > 1 else path


def _level(a: Side, b: Side, moved: Form, digests: tuple[Digests, Digests]) -> Level:
    first, second = digests
    if first.text is not None and first.text == second.text:
        return "identical"
    if first.syntax is not None and first.syntax == second.syntax:
        return "formatting only"
    if first.value == second.value:
        both = first.text is not None and second.text is not None
        return "refactoring only" if both else "identical" if a.plan == b.plan else "same meaning"
    return "same graph, other values" if a.form.shape == moved.shape else "other graph"


def _rows(edits: list[Edit], a: Form, b: Form, ours: dict[Path, Sourcing], theirs: dict[Path, Sourcing]) -> list[Row]:
    """Edits that are the same on all environments that have the formula become one row."""
    groups: dict[Any, list[Edit]] = {}
    for edit in edits:
        if edit.implied:
            continue
        alone = edit.path[0] not in PER_ENV or edit.op == "rename"
        key = edit.path if alone else (edit.op, *edit.path[:2], repr((edit.old, edit.new)))
        groups.setdefault((edit.op, key), []).append(edit)
    rows = []
    for found in groups.values():
        edit = found[0]
        where = edit.where
        if edit.path[0] in PER_ENV and edit.op != "rename":
            envs = {
                p[2] for form in (a, b) for p in (*form.leaves, *form.formulas) if p[:2] == edit.path[:2] and len(p) > 2
            }
            where = ".".join(edit.path[:2])
            if envs != {e.path[2] for e in found}:
                where += " on " + ", ".join(e.path[2] for e in found)
        rows.append(Row(where, edit.role, edit, ours.get(edit.path), theirs.get(edit.path)))
    return rows


_AIMS = ("signal", "reward", "advantage", "credit")
_UNTRAINED = ("checkpoint_every", "evaluate_every", "micro_batch")  # what a stage's weights do not depend on


def _confounded(edits: list[Edit], a: Form, b: Form) -> Confounded | None:
    told = [e for e in edits if not e.implied and e.op != "rename"]
    aims = [".".join(e.path[:2]) for e in told if e.path[0] in _AIMS]
    means = [
        e.where for e in told
        if e.path[0] == "stage" and e.path[-1] not in _UNTRAINED
        and "evaluate" not in (a.leaves.get(e.path[:2]), b.leaves.get(e.path[:2]))
    ]  # fmt: skip
    if not aims or not means:
        return None
    return Confounded(tuple(dict.fromkeys(aims)), tuple(dict.fromkeys(means)))


def _provenance(
    a: Side, b: Side, moved: Form, ours: dict[Path, Sourcing], theirs: dict[Path, Sourcing]
) -> list[tuple[str, Sourcing | None, Sourcing | None]]:
    if a.experiment is None or b.experiment is None:
        return []
    out = []
    for path in dict.fromkeys((*ours, *theirs)):
        old, new = ours.get(path), theirs.get(path)
        known = path in a.form.leaves and a.form.leaves.get(path) == moved.leaves.get(path)
        if old != new and (known or (path[0] == "param" and path in ours and path in theirs)):
            out.append((".".join(path), old, new))
    return out
