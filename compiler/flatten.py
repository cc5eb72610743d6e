"""Definitions of other files in one file: `shapes.slope` becomes `shapes_slope`, in its calls too.

A resolved spec stands alone, so what its formulas call must stand in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlspec.compiler.elaborate import dotted
from rlspec.compiler.experiment import Experiment
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass, names_of, replace


@dataclass(frozen=True, slots=True)
class Flat:
    """`definitions` by their new names; `names` are the new names of those that other files brought."""

    definitions: dict[str, tree.Item]
    names: dict[str, str]

    def expression(self, node: tree.Expression) -> tree.Expression:
        """A formula of the experiment with the new names."""
        renamed: tree.Expression = _renamed(node, self.names)
        return renamed


def flattened(experiment: Experiment) -> Flat:
    """The experiment's own definitions, and those of other files that something of it calls."""
    known = experiment.definitions
    if not any("." in name for name in known):
        return Flat(dict(known), {})
    taken = {name for name in known if "." not in name}
    names: dict[str, str] = {}
    for name in sorted(n for n in known if "." in n):
        flat, count = name.replace(".", "_"), 1
        while flat in taken:
            count += 1
            flat = f"{name.replace('.', '_')}_{count}"
        taken.add(flat)
        names[name] = flat
    roots = [f.expression for f in experiment.formulas] + [i.value for n, i in known.items() if "." not in n]
    needed: dict[str, None] = {}
    todo = [name for root in roots for name in calls(root) if name in names]
    while todo:
        name = todo.pop()
        if name not in needed:
            needed[name] = None
            prefix = name.rpartition(".")[0]
            inner = (f"{prefix}.{called}" for part in _parts(known[name]) for called in calls(part))
            todo += [called for called in inner if called in names]
    out = {}
    for name, item in known.items():
        if name in needed:
            prefix = name.rpartition(".")[0]
            inside = {n.removeprefix(f"{prefix}."): f for n, f in names.items() if n.startswith(f"{prefix}.")}
            out[names[name]] = _renamed(item, inside)
        elif name not in names:
            out[name] = _renamed(item, names)
    return Flat(out, names)


def _parts(item: tree.Item) -> Iterator[Any]:
    yield item.value
    yield from (p.default for p in item.head.parameters or ())


def calls(node: Any) -> Iterator[str]:
    """Dotted names of everything that an expression calls."""
    if isinstance(node, tree.Call) and (name := dotted(node.function)) is not None:
        yield name
    if isinstance(node, tuple):
        for part in node:
            yield from calls(part)
    elif not isinstance(node, tree.Span | str):
        for name in getattr(node, "__match_args__", ()):  # its fields
            yield from calls(getattr(node, name))


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if not names or isinstance(node, tree.Span | str):
        return node
    if isinstance(node, tuple):
        return tuple(_renamed(part, names) for part in node)
    changes = {name: _renamed(getattr(node, name), names) for name in names_of(node)}
    if not changes:
        return node
    if isinstance(node, tree.Call) and (name := dotted(node.function)) in names:
        changes["function"] = tree.Name(names[name], node.function.span)  # type: ignore[index]
    return replace(node, **changes)
