"""Edits: how one value form becomes another. An edit names a path, the old and the new; applied to a form it makes the
other one, and a diff that does not is not believed.

A formula changes by terms: added, removed, with another coefficient, or changed inside (`-1` became `-2` within
`any(...)`). A change that shares no term replaces the formula.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from rlspec.compiler.form import ORDER, PER_ENV, Form, Names, Path
from rlspec.compiler.normal import SYMMETRIC, Node, sum_of, terms_of
from rlspec.compiler.notation import formula_text, number_text, part_text, term_text
from rlspec.dsl.annotations import Any, Literal
from rlspec.dsl.dataclass import dataclass, field

Op = Literal["set", "add", "remove", "rename", "formula"]
Term = tuple[Node, Fraction]
ROLES = (
    *("policy", "engine", "env", "user", "judge", "signal", "reward", "advantage", "credit"),
    *("optimisation", "budget", "other"),
)
_BUDGET = ("steps", "tasks_per_step", "max_steps", "tasks", "trials", "demonstrations", "held_out", "attempts",
           "checkpoint_every", "evaluate_every", "max_new_tokens", "pass_at", "split", "phrasing", "before", "after",
           "micro_batch", "epochs", "samples")  # fmt: skip
_MOST_INSIDE = 4  # more changes than this inside one term are another term


@dataclass(frozen=True, slots=True)
class Inside:
    """A change inside a term: the smallest part that holds it, before and after."""

    old: str
    new: str
    within: str = ""


@dataclass(frozen=True, slots=True)
class FormulaChange:
    """Terms of a sum, before and after. `whole` when the formulas have nothing in common."""

    added: tuple[Term, ...] = ()
    removed: tuple[Term, ...] = ()
    weighted: tuple[tuple[Node, Fraction, Fraction], ...] = ()
    inside: tuple[tuple[Term, Term, tuple[Inside, ...]], ...] = ()
    whole: bool = False

    def lines(self) -> list[tuple[str, str]]:
        """(sign, text) for people: `+` a term, `-` a term, `~` a change."""
        out = [("-", term_text(*t)) for t in self.removed] + [("+", term_text(*t)) for t in self.added]
        out += [("~", f"{number_text(a)} -> {number_text(b)} of {part_text(n)}") for n, a, b in self.weighted]
        for (old, was), (_, now), changes in self.inside:
            if was != now:
                out.append(("~", f"{number_text(was)} -> {number_text(now)} of the term"))
            out += [("~", f"{c.old} -> {c.new}" + (f"  in {c.within}" if c.within else "")) for c in changes]
            if not changes:
                out.append(("~", f"in {part_text(old)}"))
        return out

    def apply(self, whole: Node) -> Node:
        """The formula after the change."""
        terms = dict(terms_of(whole))
        for part, _ in (*self.removed, *(old for old, _, _ in self.inside)):
            terms.pop(part.key, None)
        for part, weight in (*self.added, *(new for _, new, _ in self.inside), *((n, b) for n, _, b in self.weighted)):
            terms[part.key] = (part, weight)
        return sum_of(terms)


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit. `path` is in the labels of the first form; `old` and `new` are JSON values, formulas as text.
    `removed` and `added` hold what applying it takes away and puts there. `implied` edits follow from others and are
    not shown."""

    op: Op
    path: Path
    old: Any = None
    new: Any = None
    removed: Form = field(default_factory=Form)
    added: Form = field(default_factory=Form)
    change: FormulaChange | None = None
    implied: bool = False

    @property
    def role(self) -> str:
        """The part of an experiment that it concerns, one of `ROLES`."""
        kind = self.path[0]
        if kind == "mix":
            return "env"
        if kind in ("stage", "failed", *ORDER):
            return "budget" if len(self.path) > 2 and self.path[-1] in _BUDGET else "optimisation"
        if kind == "seed":
            return "optimisation"
        return "budget" if kind in ("resources", "price") else kind if kind in ROLES else "other"

    @property
    def where(self) -> str:
        """`stage.train.lr`, `reward.R on retail`."""
        if self.path[0] in PER_ENV and len(self.path) > 2:
            return f"{'.'.join(self.path[:2])} on {self.path[2]}"
        return ".".join(self.path)


def apply(form: Form, edits: Iterable[Edit]) -> Form:
    """The form after the edits: all others first, then the renames, because paths are in the first form's labels."""
    out = Form(dict(form.leaves), dict(form.formulas), dict(form.references))
    names: dict[tuple[str, str], str] = {}
    for edit in edits:
        if edit.op == "rename":
            names[edit.path[0], edit.path[1]] = str(edit.new)
            continue
        for path in edit.removed.leaves:
            out.leaves.pop(path, None)
            out.references.pop(path, None)
        for path in edit.removed.formulas:
            out.formulas.pop(path, None)
        out.leaves |= edit.added.leaves
        out.formulas |= edit.added.formulas
        out.references |= edit.added.references
        if edit.change is not None and edit.path in out.formulas:
            out.formulas[edit.path] = edit.change.apply(out.formulas[edit.path])
    return out.renamed(names)


# -------------------------------------------------------------------------------------------------- finding edits


def edits_between(a: Form, b: Form, names: Names) -> list[Edit]:
    """The edits from one form to another whose labels were made those of the first. `names` are the renames that then
    lead to the labels of the second, (kind, label of the first) -> label of the second."""
    renames = [Edit("rename", (kind, label), label, other) for (kind, label), other in names.items()]
    return [*renames, *_leaf_edits(a, b), *_formula_edits(a, b)]


def _leaf_edits(a: Form, b: Form) -> list[Edit]:
    out: list[Edit] = []
    gone = [p for p in a.leaves if p not in b.leaves]
    come = [p for p in b.leaves if p not in a.leaves]
    changed = [p for p in a.leaves if p in b.leaves and a.leaves[p] != b.leaves[p]]
    parts: set[Path] = {
        p for p in changed if len(p) == 2 and p[0] not in ("mix", "resources", "credit")
    }  # other components
    roots: dict[Path, tuple[list[Path], list[Path]]] = {}
    for position, paths in enumerate((gone, come)):
        for path in paths:
            roots.setdefault(_root(path, a, b, parts), ([], []))[position].append(path)
    for path in changed:
        less, more = roots.pop(path, ([], [])) if path in parts else ([], [])
        implied = path == ORDER and _common(a.leaves[path], b.leaves[path]) == _common(b.leaves[path], a.leaves[path])
        removed, added = _part(a, less), _part(b, [path, *more])
        out.append(Edit("set", path, _shown(a, path, less), _shown(b, path, more), removed, added, implied=implied))
    for root, (less, more) in roots.items():
        op: Op = "set" if less and more else "remove" if less else "add"
        old, new = _shown(a, root, less), _shown(b, root, more)
        implied = _follows(root, a, b)
        out.append(Edit(op, root, old, new, _part(a, less), _part(b, more), implied=implied))
    return out


def _root(path: Path, a: Form, b: Form, parts: set[Path]) -> Path:
    """Where a leaf that only one form has is told of: its component if that is new, gone or another; else the shortest
    path that the other form does not go through."""
    if path[:2] in parts:
        return path[:2]
    here, there = (a, b) if path in a.leaves else (b, a)
    if len(path) > 2 and path[:2] in here.leaves and path[:2] not in there.leaves and path[0] not in PER_ENV:
        return path[:2]
    for length in range(3, len(path)):
        if there.leaves.get(path[:length], path) is None:
            return path[:length]
    return path


def _follows(path: Path, a: Form, b: Form) -> bool:
    """Whether a leaf or formula of one side follows from an environment that came or went: its share, and what it has
    in common with an environment of both sides."""
    both = {p[1] for p in a.leaves if p[0] == "env" and len(p) == 2 and p in b.leaves}
    if path[0] == "mix":
        return path[1] not in both
    if path[0] not in PER_ENV or len(path) < 3 or path[2] in both:
        return False
    here = a if path in a.leaves or path in a.formulas else b
    for env in both:
        other: Path = (*path[:2], env)
        whole = here.formulas.get(other)
        if path in here.leaves and here.leaves.get(other) == here.leaves[path]:
            return True
        if path in here.formulas and whole is not None and whole.key == here.formulas[path].key:
            return True
    return False


def _part(form: Form, paths: list[Path]) -> Form:
    kept = {p: form.references[p] for p in paths if p in form.references}
    return Form({p: form.leaves[p] for p in paths}, {}, kept)


def _shown(form: Form, root: Path, paths: list[Path]) -> Any:
    """A value, or a component with those of its fields that the edit is about."""
    below = {".".join(p[len(root) :]): form.leaves[p] for p in paths if p != root}
    if root in form.leaves and not below:
        return form.leaves[root]
    if not below:
        return None
    return {root[0]: form.leaves[root], **below} if root in form.leaves else below


def _common(order: list[str], other: list[str]) -> list[str]:
    return [label for label in order if label in other]


# -------------------------------------------------------------------------------------------------------- formulas


def _formula_edits(a: Form, b: Form) -> list[Edit]:
    out = []
    texts: dict[tuple[str, str], str] = {}  # many environments have the same formulas: each is said once
    changes: dict[tuple[str, str], FormulaChange] = {}

    def text(kind: str, whole: Node) -> str:
        if (kind, whole.key) not in texts:
            texts[kind, whole.key] = formula_text(kind, whole)
        return texts[kind, whole.key]

    for path, old in a.formulas.items():
        new = b.formulas.get(path)
        if new is None:
            gone, implied = Form(formulas={path: old}), _follows(path, a, b)
            out.append(Edit("remove", path, text(path[0], old), None, removed=gone, implied=implied))
        elif new.key != old.key:
            pair = old.key, new.key
            if pair not in changes:
                changes[pair] = formula_change(old, new)
            out.append(Edit("formula", path, text(path[0], old), text(path[0], new), change=changes[pair]))
    for path, new in b.formulas.items():
        if path not in a.formulas:
            come, implied = Form(formulas={path: new}), _follows(path, a, b)
            out.append(Edit("add", path, None, text(path[0], new), added=come, implied=implied))
    return sorted(out, key=lambda e: PER_ENV.index(e.path[0]))


Found = dict[tuple[str, str], "list[Inside]"]
"""Changes inside a pair of parts, by their keys: shared parts are compared once, whatever they expand to."""


def formula_change(old: Node, new: Node, found: Found | None = None) -> FormulaChange:
    """How one formula became another, by terms."""
    memo: Found = {} if found is None else found
    before, after = terms_of(old), terms_of(new)
    removed = [t for k, t in before.items() if k not in after]
    added = [t for k, t in after.items() if k not in before]
    weighted = [(t[0], t[1], after[k][1]) for k, t in before.items() if k in after and after[k][1] != t[1]]
    inside = []
    for term in list(removed):
        near = [(len(changes), other, changes) for other in added
                if (changes := changes_inside(term[0], other[0], memo)) is not None]  # fmt: skip
        if near:
            _, other, changes = min(near, key=lambda f: (f[0], f[1][1] != term[1]))
            removed.remove(term)
            added.remove(other)
            inside.append((term, other, tuple(changes)))
    kept = len(before) > len(removed) or bool(inside)
    return FormulaChange(tuple(added), tuple(removed), tuple(weighted), tuple(inside), whole=not kept)


def changes_inside(old: Node, new: Node, memo: Found) -> list[Inside] | None:
    """The smallest parts in which two parts differ, or None when they are different things altogether."""
    found = _inside(old, new, memo)
    whole = [c for c in found if c.within == "" and c.old == part_text(old)]
    return None if whole or len(found) > _MOST_INSIDE else found


def _inside(old: Node, new: Node, memo: Found) -> list[Inside]:
    pair = (old.key, new.key)
    if pair not in memo:
        memo[pair] = _compared(old, new, memo)[: _MOST_INSIDE + 1]
    return memo[pair]


def _compared(old: Node, new: Node, memo: Found) -> list[Inside]:
    if old.key == new.key:
        return []
    if old.op != new.op:
        return [Inside(part_text(old), part_text(new))]
    within = part_text(old)
    if old.op == "sum":
        change = formula_change(old, new, memo)
        if change.whole:
            return [Inside(part_text(old), part_text(new))]
        return [_from_line(sign, text, within) for sign, text in change.lines()]
    names = {k for k, _ in old.attrs} | {k for k, _ in new.attrs}
    attrs = [Inside(f"{k} = {old.attr(k)}", f"{k} = {new.attr(k)}", within) for k in sorted(names)
             if old.attr(k) != new.attr(k)]  # fmt: skip
    if old.op in ("const", "input", "ref", "limit", "table") and attrs:
        return [Inside(part_text(old), part_text(new))]
    left, right = list(old.children), list(new.children)
    if old.op in SYMMETRIC:
        same = {c.key for c in left} & {c.key for c in right}
        left, right = [c for c in left if c.key not in same], [c for c in right if c.key not in same]
    if len(left) != len(right):
        return [Inside(part_text(old), part_text(new))]
    inner = [change for a, b in zip(left, right, strict=True) for change in _inside(a, b, memo)]
    placed = [c if c.within else Inside(c.old, c.new, within) for c in inner]
    return [*attrs, *placed]


def _from_line(sign: str, text: str, within: str) -> Inside:
    if sign == "~":
        old, _, new = text.partition(" -> ")
        return Inside(old, new, within)
    return Inside(text, "nothing", within) if sign == "-" else Inside("nothing", text, within)
