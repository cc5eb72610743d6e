"""Syntax trees as plain data, which `marshal` writes and reads in a tenth of the time that parsing takes.

A node is a tuple: the number of its class, its fields without the span, where it begins and where it ends. Nodes one
after the other are a list. Offsets count from wherever the text began that was parsed; `unpacked` moves them.
"""

from __future__ import annotations

from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import names_of
from rlspec.dsl.tree import Span

KINDS: tuple[Any, ...] = (
    tree.Name, tree.Number, tree.Text, tree.Boolean, tree.Member, tree.Index, tree.Unary, tree.Binary,
    tree.Conditional, tree.Argument, tree.Call, tree.ListOf, tree.SetOf, tree.TypeExpr, tree.Parameter, tree.Head,
    tree.Item, tree.Comment,
)  # fmt: skip
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}


def packed(node: Any, origin: int = 0) -> Any:
    """A node, or a sequence of nodes, as plain data, with offsets from `origin`."""
    number = _NUMBER.get(type(node))
    if number is not None:
        span = node.span
        fields = [packed(getattr(node, name), origin) for name in names_of(node)[:-1]]  # the last one is the span
        return (number, *fields, span.start - origin, span.stop - origin)
    return [packed(part, origin) for part in node] if isinstance(node, tuple) else node


def unpacked(data: Any, origin: int = 0) -> Any:
    """The node, or the tuple of nodes, that `packed` made the data of, for a text that begins at `origin`."""
    if type(data) is list:
        return tuple([unpacked(part, origin) for part in data])
    if type(data) is not tuple:
        return data
    span = Span(data[-2] + origin, data[-1] + origin)
    if data[0] == 0:  # a third of all nodes
        return tree.Name(data[1], span)
    return KINDS[data[0]](*[unpacked(f, origin) if type(f) in _NESTED else f for f in data[1:-2]], span)


_NESTED = frozenset({tuple, list})
