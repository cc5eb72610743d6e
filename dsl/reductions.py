"""What each production of the grammar makes: one function a name, from the values of its parts.

A part is a `Token` for a terminal, else what its production made. A node's span runs from its first character
to its last, parentheses included.
"""

from __future__ import annotations

from collections.abc import Callable

from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import replace
from rlspec.dsl.tokens import Token, number_parts, text_value
from rlspec.dsl.tree import (
    Argument,
    Binary,
    Boolean,
    Call,
    Conditional,
    Expression,
    Head,
    Index,
    Item,
    ListOf,
    Member,
    Name,
    Number,
    Parameter,
    SetOf,
    Span,
    Text,
    TypeExpr,
    Unary,
)

Parts = list[Any]


def name_of(token: Token) -> Name:
    return Name(token[1], Span(token[2], token[3]))  # by number: half of what is read are names


def text_of_token(token: Token) -> Text:
    return Text(text_value(token.text), Span(token.start, token.stop))


def number_of(token: Token) -> Number:
    value, integral, unit = number_parts(token.text)
    return Number(value, unit, integral, token.text, Span(token.start, token.stop))


# ------------------------------------------------------------------------------------------------------ lists


def _append(parts: Parts) -> Parts:
    sequence, new = parts
    sequence.append(name_of(new) if isinstance(new, Token) else new)
    return sequence


def _append_after_sign(parts: Parts) -> Parts:
    return _append([parts[0], parts[2]])


def _append_text(parts: Parts) -> Parts:
    parts[0].append(text_of_token(parts[1]))
    return parts[0]


def _one(parts: Parts) -> Parts:
    return _append([[], parts[0]])


# ------------------------------------------------------------------------------------------------------ items


def _item_value(parts: Parts) -> Item:
    head, _, value = parts
    return Item(head, value, None, head.span.to(value.span))


def _item_body(parts: Parts) -> Item:
    head, _, items, close = parts
    return Item(head, None, tuple(items), Span(head.span.start, close.stop))


def _head(parts: Parts) -> Head:
    path, labels, parameters, typing, base, source = parts
    if source or base or typing:
        stop = (source or base or typing).span.stop
    elif parameters:
        stop = parameters[1]
    else:
        stop = (labels or path)[-1].span.stop
    return Head(
        tuple(path),
        tuple(labels),
        parameters[0] if parameters else None,
        typing,
        base,
        source,
        Span(path[0].span.start, stop),
    )


def _parameters(parts: Parts) -> tuple[tuple[Parameter, ...], int]:
    """The parameters, and where their closing parenthesis ends."""
    return tuple(parts[1]) if len(parts) > 2 else (), parts[-1].stop


def _second(parts: Parts) -> Any:
    return name_of(parts[1]) if isinstance(parts[1], Token) else parts[1]


def _parameter(parts: Parts) -> Parameter:
    return Parameter(name_of(parts[0]), parts[2], None, Span(parts[0].start, parts[2].span.stop))


def _parameter_default(parts: Parts) -> Parameter:
    name, _, typing, _, default = parts
    return Parameter(name_of(name), typing, default, Span(name.start, default.span.stop))


def _type(base: Expression, level: Token | None, bounds: ListOf | SetOf | None) -> TypeExpr:
    stop = bounds.span.stop if bounds is not None else level.stop if level is not None else base.span.stop
    return TypeExpr(base, name_of(level) if level else None, bounds, Span(base.span.start, stop))


# ------------------------------------------------------------------------------------------------ expressions


def _binary(parts: Parts) -> Binary:
    left, op, right = parts
    return Binary(op.text, left, right, Span(left.span.start, right.span.stop))


def _not_in(parts: Parts) -> Binary:
    return Binary("not in", parts[0], parts[3], Span(parts[0].span.start, parts[3].span.stop))


def _unary(parts: Parts) -> Unary:
    return Unary(parts[0].text, parts[1], Span(parts[0].start, parts[1].span.stop))


def _conditional(parts: Parts) -> Conditional:
    return Conditional(parts[1], parts[3], parts[5], Span(parts[0].start, parts[5].span.stop))


def _member(parts: Parts) -> Member:
    return Member(parts[0], name_of(parts[2]), Span(parts[0].span.start, parts[2].stop))


def _index(parts: Parts) -> Index:
    return Index(parts[0], parts[2], Span(parts[0].span.start, parts[3].stop))


def _call(parts: Parts) -> Call:
    arguments = tuple(parts[2]) if len(parts) > 3 else ()
    return Call(parts[0], arguments, Span(parts[0].span.start, parts[-1].stop))


def _parenthesis(parts: Parts) -> Expression:
    inner: Expression = parts[1]
    return replace(inner, span=Span(parts[0].start, parts[2].stop))


def _list(parts: Parts) -> ListOf:
    items = tuple(parts[1]) if len(parts) > 2 else ()
    return ListOf(items, Span(parts[0].start, parts[-1].stop))


def _set(parts: Parts) -> SetOf:
    items = tuple(parts[1]) if len(parts) > 2 else ()
    return SetOf(items, Span(parts[0].start, parts[-1].stop))


def _argument(parts: Parts) -> Argument:
    return Argument(parts[0], None, (), None, None, parts[0].span)


def _named_argument(parts: Parts) -> Argument:
    name, _, value = parts
    return Argument(value, name_of(name), (), None, None, Span(name.start, value.span.stop))


def _axes(names: list[Name], stop: int) -> tuple[tuple[Name, ...], int]:
    """The axes, and where they end (behind a parenthesis, if there is one)."""
    return tuple(names), stop


def _reduced(parts: Parts) -> Argument:
    value, _, (axes, stop), *rest = parts
    align = where = None
    for word, what in zip(rest[::2], rest[1::2], strict=True):
        if word.kind == "ALIGN":
            align, stop = name_of(what), what.stop
        else:
            where, stop = what, what.span.stop
    return Argument(value, None, axes, align, where, Span(value.span.start, stop))


REDUCTIONS: dict[str, Callable[[Parts], Any]] = {
    "no_items": lambda parts: [],
    "none": lambda parts: [],
    "absent": lambda parts: None,
    "append": _append,
    "append_text": _append_text,
    "append_after_sign": _append_after_sign,
    "one": _one,
    "item_value": _item_value,
    "item_body": _item_body,
    "head": _head,
    "parameters": _parameters,
    "second": _second,
    "second_text": lambda parts: text_of_token(parts[1]),
    "parameter": _parameter,
    "parameter_default": _parameter_default,
    "plain_type": lambda parts: _type(parts[0], None, None),
    "ranged_type": lambda parts: _type(parts[0], None, parts[2]),
    "level_type": lambda parts: _type(parts[0], parts[2], None),
    "level_ranged_type": lambda parts: _type(parts[0], parts[2], parts[4]),
    "conditional": _conditional,
    "binary": _binary,
    "not_in": _not_in,
    "unary": _unary,
    "member": _member,
    "index": _index,
    "call": _call,
    "number": lambda parts: number_of(parts[0]),
    "text": lambda parts: text_of_token(parts[0]),
    "boolean": lambda parts: Boolean(parts[0].kind == "TRUE", parts[0].span),
    "name": lambda parts: name_of(parts[0]),
    "parenthesis": _parenthesis,
    "list": _list,
    "set": _set,
    "argument": _argument,
    "named_argument": _named_argument,
    "one_axis": lambda parts: _axes([name_of(parts[0])], parts[0].stop),
    "axes": lambda parts: _axes(parts[1], parts[-1].stop),
    "reduced": _reduced,
}
