"""Which part of one experiment corresponds to which of another, when their authors named them differently.

Equal labels belong together. What is left is paired by role: the only one of its kind on both sides, the only one of
its component (a grpo stage with a grpo stage), then whatever agrees in at least half of its fields. A signal is known
by what it measures, a formula by its kind and, on one environment, by being the only one.
"""

from __future__ import annotations

from rlspec.compiler.form import FORMULAS, Form, Path
from rlspec.compiler.plan import canonical

PARTS = ("policy", "engine", "env", "user", "judge", "stage")
ALIKE = 0.5  # share of equal fields from which two parts count as one


def align(a: Form, b: Form) -> dict[tuple[str, str], str]:
    """(kind, label in the second) -> label in the first, for those whose labels differ."""
    names: dict[tuple[str, str], str] = {}
    for kind in PARTS:
        _parts(a, b, kind, names)
    moved = b.renamed(names)
    for label, other in _pairs(a, moved, "signal", _measures(a), _measures(moved)):
        names["signal", other] = label
    for kind in FORMULAS:
        left, right = _unmatched(a, moved, kind)
        if len(left) == len(right) == 1:
            names[kind, right[0]] = left[0]
    return {key: label for key, label in names.items() if key[1] != label}


def _unmatched(a: Form, b: Form, kind: str) -> tuple[list[str], list[str]]:
    left, right = a.labels(kind), b.labels(kind)
    return [x for x in left if x not in right], [x for x in right if x not in left]


def _parts(a: Form, b: Form, kind: str, names: dict[tuple[str, str], str]) -> None:
    left, right = _unmatched(a, b, kind)
    if len(left) == len(right) == 1 and (kind != "stage" or a.leaves[kind, left[0]] == b.leaves[kind, right[0]]):
        names[kind, right[0]] = left[0]
        return
    for label, other in _pairs(a, b, kind, _components(a, kind), _components(b, kind)):
        names[kind, other] = label
        left.remove(label)
        right.remove(other)
    scored = sorted(((_likeness(a, b, kind, x, y), x, y) for x in left for y in right), reverse=True)
    for score, x, y in scored:
        if score >= ALIKE and x in left and y in right:
            names[kind, y] = x
            left.remove(x)
            right.remove(y)


def _pairs(a: Form, b: Form, kind: str, first: dict[str, str], second: dict[str, str]) -> list[tuple[str, str]]:
    """Unmatched labels whose property is held by exactly one of each side."""
    left, right = _unmatched(a, b, kind)
    out = []
    for label in left:
        mine = [x for x in left if first.get(x) == first.get(label)]
        theirs = [y for y in right if second.get(y) == first.get(label)]
        if len(mine) == len(theirs) == 1:
            out.append((label, theirs[0]))
    return out


def _components(form: Form, kind: str) -> dict[str, str]:
    return {label: str(form.leaves.get((kind, label))) for label in form.labels(kind)}


def _measures(form: Form) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for path, value in form.leaves.items():
        if path[0] == "signal":
            found.setdefault(path[1], set()).add(str(value))
    return {label: " ".join(sorted(values)) for label, values in found.items()}


def _likeness(a: Form, b: Form, kind: str, x: str, y: str) -> float:
    """Jaccard index of two parts' fields with their values."""
    left, right = _fields(a, (kind, x)), _fields(b, (kind, y))
    return len(left & right) / max(1, len(left | right))


def _fields(form: Form, root: Path) -> set[str]:
    return {canonical([p[2:], v]) for p, v in form.leaves.items() if p[:2] == root}
