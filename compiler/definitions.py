"""Calls of definitions: a `def`'s body over the values of its arguments.

A definition sees its parameters, the standard library, and what its own file defines; it reads no measure and no table.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlspec.compiler import functions
from rlspec.compiler.builder import Value
from rlspec.compiler.library import Definitions, renamed
from rlspec.compiler.scope import Failed, Scope
from rlspec.compiler.types import read_type
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.diagnostics import Diagnostic, near_name

if TYPE_CHECKING:
    from rlspec.compiler.elaborate import Elaborator


def own(e: Elaborator, name: str, item: tree.Item) -> bool:
    """Whether a function is meant inside of the definition that carries its name: `std.gae` is made of `gae`."""
    return bool(e.expanding) and e.expanding[-1][1] is item and name in functions.FUNCTIONS


def expand(e: Elaborator, name: str, item: tree.Item, node: tree.Call, scope: Scope) -> Value:
    """A call of a `def`: its body over the arguments' values. No recursion, so expansion ends."""
    if any(item is other for _, other in e.expanding):
        circle = " -> ".join([*(n for n, _ in e.expanding), name])
        raise e.fail("RLC0106", f"`{name}` is defined by itself", node.span, notes=[circle])
    parameters = item.head.parameters or ()
    given: dict[str, tree.Argument] = {}
    for position, argument in enumerate(node.arguments):
        if argument.over or argument.where:
            raise e.fail("RLC0205", f"`{name}` takes plain arguments", argument.span)
        if argument.name is None and position >= len(parameters):
            raise e.fail("RLC0205", f"`{name}` takes {len(parameters)} arguments", argument.span)
        key = argument.name.value if argument.name else parameters[position].name.value
        if key not in {p.name.value for p in parameters}:
            near = near_name(key, [p.name.value for p in parameters])
            hint = f"did you mean `{near}`?" if near else ""
            raise e.fail("RLC0205", f"`{name}` has no parameter `{key}`", argument.span, hint)
        if key in given:
            raise e.fail("RLC0205", f"`{key}` is given twice", argument.span)
        given[key] = argument
    names: dict[str, Value] = {}
    definitions = _seen_from(name, scope.definitions)
    for parameter in parameters:
        written = parameter.name.value in given
        expression = given[parameter.name.value].value if written else parameter.default
        if expression is None:
            raise e.fail("RLC0205", f"`{name}` needs `{parameter.name.value}`", node.span)
        declared = read_type(parameter.type, e.report)
        if declared is None:
            raise Failed()
        where = scope if written else Scope({}, definitions, lambda *_: None)
        word = expression.value if isinstance(expression, tree.Name) else ""
        if declared.choices and word and word not in declared.choices and word not in where.names:
            near = near_name(word, declared.choices)
            hint = f"did you mean `{near}`?" if near else ""
            message = f"`{parameter.name.value}` of `{name}` is one of {', '.join(declared.choices)}, not `{word}`"
            raise e.fail("RLC0202", message, expression.span, hint)
        found = e.value(expression, where, declared.choices if word in declared.choices else ())
        names[parameter.name.value] = e.conform(
            found, declared, expression.span, f"argument `{parameter.name.value}` of {name}"
        )
    assert item.value is not None
    e.expanding.append((name, item))
    before = len(e.report)
    try:
        inner = Scope(names, definitions, lambda *_: None)
        result = e.value(item.value, inner)
    except Failed:
        _relocate(e, before, name, node.span)
        raise
    finally:
        e.expanding.pop()
    _relocate(e, before, name, node.span)
    wanted = read_type(item.head.type, e.report) if item.head.type else None
    return e.conform(result, wanted, node.span, name) if wanted else result


def _relocate(e: Elaborator, before: int, name: str, span: tree.Span) -> None:
    """What is wrong inside a definition (often of another file) is shown at the call."""
    for position in range(before, len(e.report)):
        old = e.report[position]
        e.report[position] = Diagnostic(
            old.code, old.message, span, old.severity, old.label, (*old.notes, f"inside `{name}`")
        )


def _seen_from(name: str, definitions: Mapping[str, tree.Item]) -> Mapping[str, tree.Item]:
    """The definitions that a definition sees: the standard library's and, of an imported one, only its own file's."""
    prefix = name.rpartition(".")[0]
    if not prefix:
        return definitions
    library = renamed(definitions, {name: name for name in definitions if name.startswith("std.")})
    below = {name.removeprefix(f"{prefix}."): name for name in definitions if name.startswith(f"{prefix}.")}
    return Definitions({**library, **renamed(definitions, below)})
