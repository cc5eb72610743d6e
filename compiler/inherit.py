"""`extends`: an experiment that is another one with changes, a component that is another one with other fields.

    experiment slow extends "base.rlspec" {          # the experiment of that file, or of this one by its name
      patch.stage.train.lr = 1e-6
      stage exam : evaluate { after = [train] }      # something new
    }
    judge strict : llm extends turns { temperature = 0.0 }

A base may extend another, as long as they form no circle. What a base declares can be patched and removed, never
declared again, so that nobody changes a base without seeing it. A base's definitions and uses come along, and so do its
variants; its claims and tests speak of the base only.
"""

from __future__ import annotations

from collections.abc import Callable

from rlspec.compiler.catalog import catalog
from rlspec.compiler.files import beside, identity, placed
from rlspec.compiler.uses import shifted
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.dataclass import dataclass, replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name

if TYPE_CHECKING:
    from rlspec.compiler.patches import Body


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One experiment of a line, its spans moved by `shift`. `items` are those of its file as they stand there, when it
    is the first of the line in that file (else none); `source` is the file, `name` what a reader calls it."""

    name: str
    item: tree.Item
    items: tuple[tree.Item, ...]
    source: Source
    shift: int = 0

    @property
    def definitions(self) -> tuple[tree.Item, ...]:
        """The file's `def`s, their spans moved."""
        return tuple(shifted(i, self.shift) for i in self.items if i.head.path[0].value == "def")


def experiments_in(file: tree.File) -> list[tree.Item]:
    return [i for i in file.items if i.head.path[0].value == "experiment" and i.body is not None]


def label_of(item: tree.Item) -> str:
    return item.head.labels[0].value if item.head.labels else ""


def youngest(found: list[tree.Item]) -> list[tree.Item]:
    """The experiments of a file that no other of it extends."""
    bases = {i.head.extends.value for i in found if isinstance(i.head.extends, tree.Name)}
    return [i for i in found if label_of(i) not in bases] or found


def lineage(file: tree.File, source: Source, take: Callable[[Source], int], report: list[Diagnostic]) -> list[Ancestor]:
    """The file's experiment behind all that it extends, the oldest first; empty when the file has none. What is wrong
    ends the line after it is reported: RLC0701 no such file, RLC0101 no such experiment, RLC0106 a circle, RLC0110 a
    base's file has no experiment or several."""
    found = experiments_in(file)
    if not found:
        return []
    item, here, place = youngest(found)[0], file, source
    line = [Ancestor("spec", item, file.items, source)]
    seen = {(identity(source), label_of(item))}
    shift = 0
    while item.head.extends is not None:
        base = item.head.extends
        where = base if shift == 0 else shifted(base, -shift)
        items: tuple[tree.Item, ...] = ()
        try:
            if isinstance(base, tree.Text):
                place, file, shift = _read(where, place, take, report)  # type: ignore[arg-type]
                items, here = file.items, replace(file, items=shifted(file.items, shift))
                candidates = youngest(experiments_in(here))
                if len(candidates) != 1:
                    count = "no experiment" if not candidates else f"{len(candidates)} experiments"
                    raise _wrong("RLC0110", f"`{base.value}` has {count}", where, line[0].source)
                item, name = candidates[0], f"base {base.value}"
            else:
                known = {label_of(i): i for i in experiments_in(here)}
                word = base.value if isinstance(base, tree.Name) else ""
                if word not in known:
                    near = near_name(word, [k for k in known if k != label_of(item)])
                    hint = f"did you mean `{near}`?" if near else 'another file is named in quotes: "base.rlspec"'
                    raise _wrong("RLC0101", f"there is no experiment `{word}` in the file", where, place, hint)
                item, name = known[word], f"base {word}"
            key = (identity(place), label_of(item))
            if key in seen:
                words = " -> ".join([*(a.name for a in line), name])
                raise _wrong("RLC0106", "an experiment extends itself", where, line[0].source, "", words)
        except SpecError as error:
            report += error.diagnostics
            break
        seen.add(key)
        line.insert(0, Ancestor(name, item, items, place, shift))
    return line


def _read(
    base: tree.Text, place: Source, take: Callable[[Source], int], report: list[Diagnostic]
) -> tuple[Source, tree.File, int]:
    found = beside(place, base.value, base.span)
    file, problems = parser.parse(found)
    report += placed(problems, found)
    return found, file, take(found)


def _wrong(code: str, message: str, node: tree.Expression, source: Source, label: str = "", *notes: str) -> SpecError:
    return SpecError([Diagnostic(code, message, node.span, label=label, notes=notes, source=source)])


# ----------------------------------------------------------------------------------------------------- components


def with_inherited(body: Body, report: list[Diagnostic]) -> Body:
    """The items of an experiment, every component that extends another with the fields that it inherits. A body without
    such components is given back as it is."""
    if all(i.head.extends is None for i in body):
        return body
    declared = {(i.head.path[0].value, label_of(i)): i for i in body if i.head.labels}
    return tuple(_whole(i, declared, report, []) if i.head.extends is not None else i for i in body)


def _whole(
    item: tree.Item, declared: dict[tuple[str, str], tree.Item], report: list[Diagnostic], trail: list[str]
) -> tree.Item:
    """A component with what it inherits; without its `extends` after reporting."""
    head, base = item.head, item.head.extends
    alone = replace(item, head=replace(head, extends=None))
    if base is None:
        return item
    kind, trail = head.path[0].value, [*trail, label_of(item)]
    if kind not in catalog() or item.body is None:
        report.append(Diagnostic("RLC0207", "experiments and components extend others", base.span))
        return alone
    word = base.value if isinstance(base, tree.Name) else ""
    found = declared.get((kind, word))
    if found is None:
        near = near_name(word, [label for k, label in declared if k == kind and label != label_of(item)])
        hint = f"did you mean `{near}`?" if near else f"a {kind} extends a {kind} of this experiment"
        report.append(Diagnostic("RLC0101", f"there is no {kind} `{word}` to extend", base.span, label=hint))
        return alone
    if word in trail:
        circle = " -> ".join([*trail, word])
        report.append(Diagnostic("RLC0106", f"{kind} `{word}` extends itself", base.span, notes=(circle,)))
        return alone
    parent = _whole(found, declared, report, trail)
    body = parent.body or ()
    if head.type is not None and parent.head.type is not None and head.type.base != parent.head.type.base:
        same = getattr(head.type.base, "value", None) == getattr(parent.head.type.base, "value", "")
        if not same:
            words = f"`{word}` is another component: only what is alike can be extended"
            report.append(Diagnostic("RLC0103", words, head.type.span, label=f"write `: {_name(parent)}`"))
            return alone
    from rlspec.compiler.patches import field_leaves, with_leaf

    for path, leaf in field_leaves((), item):
        body, hit = with_leaf(body, path, leaf)
        if not hit:
            body = (*body, replace(leaf, head=replace(leaf.head, path=path)))
    kept = replace(head, extends=None, type=head.type or parent.head.type)
    return replace(item, head=kept, body=body)


def _name(item: tree.Item) -> str:
    base = item.head.type.base if item.head.type is not None else None
    return base.value if isinstance(base, tree.Name) else "component"
