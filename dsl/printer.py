"""From tree to canonical text: one spacing, and parentheses only where the grammar needs them.

`parse_expression(text_of(e))` gives `e` again, but for spans. Numbers are printed as they were written.
"""

from __future__ import annotations

from rlspec.dsl.tree import (
    Argument,
    Binary,
    Boolean,
    Call,
    Conditional,
    Expression,
    Head,
    Index,
    ListOf,
    Member,
    Name,
    Number,
    Parameter,
    SetOf,
    Text,
    TypeExpr,
    Unary,
)

# How tightly each form binds, as the grammar has it, from loosest to tightest.
_CONDITIONAL, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _POWER, _POSTFIX = range(10)

# The binding of an operator's result, and the least that its operands need to go without parentheses.
_BINARY = {
    "or": (_OR, _OR, _AND),
    "and": (_AND, _AND, _NOT),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not in"), (_COMPARISON, _SUM, _SUM)),
    **dict.fromkeys("+-", (_SUM, _SUM, _PRODUCT)),
    **dict.fromkeys("*/", (_PRODUCT, _PRODUCT, _SIGNED)),
    "^": (_POWER, _POSTFIX, _SIGNED),
}
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def text_of(node: Expression | Argument | TypeExpr | Parameter | Head) -> str:
    """The canonical text of an expression, or of an argument, type, parameter or head."""
    if isinstance(node, Argument):
        return _argument(node)
    if isinstance(node, TypeExpr):
        return _type(node)
    if isinstance(node, Parameter):
        default = "" if node.default is None else f" = {text_of(node.default)}"
        return f"{node.name.value} : {_type(node.type)}{default}"
    if isinstance(node, Head):
        return _head(node)
    known = _texts.get(id(node))
    if known is not None:
        return known[1]
    text = _print(node)[0]
    if isinstance(node, Binary | Call):  # the others are done in no time
        if len(_texts) >= MOST_TEXTS:
            _texts.clear()
        _texts[id(node)] = node, text
    return text


# A tree cannot change, so its text is found once: variants have most of their formulas in common. By the identity of
# the node, which the entry keeps alive.
_texts: dict[int, tuple[Binary | Call, str]] = {}
MOST_TEXTS = 1024


def _within(node: Expression, least: int) -> str:
    """The text of an operand, in parentheses if it binds less tightly than it must."""
    text, binding = _print(node)
    return text if binding >= least else f"({text})"


def _print(node: Expression) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    match node:
        case Number(text=text):
            return text, _POSTFIX
        case Text(value=value):
            return _quoted(value), _POSTFIX
        case Boolean(value=value):
            return ("true" if value else "false"), _POSTFIX
        case Name(value=value):
            return value, _POSTFIX
        case Member(target=target, name=name):
            return f"{_within(target, _POSTFIX)}.{name.value}", _POSTFIX
        case Index(target=target, key=key):
            return f"{_within(target, _POSTFIX)}[{text_of(key)}]", _POSTFIX
        case Call(function=function, arguments=arguments):
            inside = ", ".join(_argument(argument) for argument in arguments)
            return f"{_within(function, _POSTFIX)}({inside})", _POSTFIX
        case ListOf(items=items):
            return f"[{', '.join(text_of(item) for item in items)}]", _POSTFIX
        case SetOf(items=items):
            return f"{{{', '.join(text_of(item) for item in items)}}}", _POSTFIX
        case Unary(op="not", operand=operand):
            return f"not {_within(operand, _NOT)}", _NOT
        case Unary(op=op, operand=operand):
            return f"{op}{_within(operand, _SIGNED)}", _SIGNED
        case Binary(op=op, left=left, right=right):
            binding, left_least, right_least = _BINARY[op]
            return f"{_within(left, left_least)} {op} {_within(right, right_least)}", binding
        case Conditional(condition=condition, yes=yes, no=no):
            return f"if {text_of(condition)} then {text_of(yes)} else {text_of(no)}", _CONDITIONAL


def _argument(argument: Argument) -> str:
    text = text_of(argument.value)
    if argument.name is not None:
        text = f"{argument.name.value} = {text}"
    if argument.over:
        axes = ", ".join(axis.value for axis in argument.over)
        text += f" over {axes}" if len(argument.over) == 1 else f" over ({axes})"
    if argument.align is not None:
        text += f" align {argument.align.value}"
    if argument.where is not None:
        text += f" where {text_of(argument.where)}"
    return text


def _type(node: TypeExpr) -> str:
    level = "" if node.level is None else f"@{node.level.value}"
    bounds = "" if node.range is None else f" in {text_of(node.range)}"
    return text_of(node.base) + level + bounds


def _head(head: Head) -> str:
    text = ".".join(name.value for name in head.path)
    for label in head.labels:
        text += f" {text_of(label)}"
    if head.parameters is not None:
        text += f"({', '.join(text_of(parameter) for parameter in head.parameters)})"
    if head.type is not None:
        text += f" : {_type(head.type)}"
    if head.extends is not None:
        text += f" extends {text_of(head.extends)}"
    if head.on is not None:
        text += f" on {head.on.value}"
    return text


def _quoted(value: str) -> str:
    escaped = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):X}}}") for c in value)
    return f'"{"".join(escaped)}"'
