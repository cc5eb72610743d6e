"""What the parser says when a token does not fit: one hand-written entry for each state in which that can
happen.

An error is noticed when a token arrives, so it belongs to the state that the token before led to. Such a
state is named here by its first kernel item (what has been read, the dot, what may follow), which survives
any renumbering of the tables; a test fails when a change of the grammar makes a state that has no entry.
`{end}` stands for what may follow a finished value there, taken from the tables and put into words by
`_ENDS`.
"""

from __future__ import annotations

from collections.abc import Collection

from rlspec.dsl.annotations import NamedTuple
from rlspec.dsl.diagnostics import near_name
from rlspec.dsl.tables import END, Tables
from rlspec.dsl.tokens import Token


class Expectation(NamedTuple):
    """The message, what to write beside the carets, and the word of the language that was probably meant."""

    message: str
    label: str
    instead: str | None


_AFTER_VALUE = "an operator{end}"
_HEAD_END = "`=` or `{{` after the head"

EXPECTED: dict[str, str] = {
    # the beginning of the text, by the start symbol
    "": "an item, as `env shop : shop {{ ... }}`",
    "lone_expression": "an expression",
    "lone_type": "a type, as `real@traj`",
    # items; the states without a dot before a sign are reached only by going on after an error
    "file: items .": "the next item",
    "item: head LBRACE items . RBRACE": "the next item or `}}`",
    "item: head . EQUAL expression": "`=` or `{{` after the head",
    "item: head EQUAL . expression": "a value after `=`",
    "item: head LBRACE . items RBRACE": "an item or `}}` after `{{`",
    "item: head LBRACE items RBRACE .": "the next item{end}",
    # heads
    "path: NAME .": "a label, `:`, `=` or `{{` after `{before}`",
    "path: path DOT . NAME": "a name after `.`",
    "path: path DOT NAME .": "`.`, `:`, `=` or `{{` after the path",
    "labels: labels NAME .": "`:`, `=` or `{{` after the label",
    "labels: labels TEXT .": "`:`, `=` or `{{` after the label",
    "parameters: LPAR . RPAR": "a parameter, as `gamma : real`, or `)`",
    "parameters: LPAR some_parameters COMMA . RPAR": "a parameter, as `gamma : real`, or `)`",
    "parameters: LPAR RPAR .": "`:` and the type of the result, or `=`",
    "parameters: LPAR some_parameters RPAR .": "`:` and the type of the result, or `=`",
    "parameters: LPAR some_parameters COMMA RPAR .": "`:` and the type of the result, or `=`",
    "parameter: NAME . COLON type": "`:` and the type of the parameter `{before}`",
    "parameter: NAME COLON . type": "the type of a parameter after `:`",
    "parameter: NAME COLON type EQUAL . expression": "the default of a parameter after `=`",
    "typing: COLON . type": "a type or a component after `:`",
    "base: EXTENDS . TEXT": "the name of what is extended, or a file as a text,",
    "base: EXTENDS TEXT .": _HEAD_END,
    "source: ON . NAME": "the name of an env after `on`",
    "source: ON NAME .": _HEAD_END,
    # types
    "reference: NAME .": "`.`, `@` and a level, `in` and a range{end}",
    "reference: reference DOT . NAME": "a name after `.`",
    "reference: reference DOT NAME .": "`.`, `@` and a level, `in` and a range{end}",
    "type: type_name AT . NAME": "a level after `@`: const, step, group, traj, turn or token",
    "type: type_name AT NAME .": "`in` and a range{end}",
    "type: type_name IN . range": "a range after `in`, as [0, 1] or {{0, 1}}",
    "type: type_name AT NAME IN . range": "a range after `in`, as [0, 1] or {{0, 1}}",
    # values that are finished
    "atom: NAME .": _AFTER_VALUE,
    "atom: NUMBER .": _AFTER_VALUE,
    "atom: TEXT .": _AFTER_VALUE,
    "atom: TRUE .": _AFTER_VALUE,
    "atom: FALSE .": _AFTER_VALUE,
    "atom: LPAR expression RPAR .": _AFTER_VALUE,
    "postfix: postfix DOT NAME .": _AFTER_VALUE,
    "postfix: postfix LSQB expression RSQB .": _AFTER_VALUE,
    "postfix: postfix LPAR RPAR .": _AFTER_VALUE,
    "postfix: postfix LPAR arguments RPAR .": _AFTER_VALUE,
    "postfix: postfix LPAR arguments COMMA RPAR .": _AFTER_VALUE,
    "list: LSQB RSQB .": _AFTER_VALUE,
    "list: LSQB elements RSQB .": _AFTER_VALUE,
    "list: LSQB elements COMMA RSQB .": _AFTER_VALUE,
    "set: LBRACE RBRACE .": _AFTER_VALUE,
    "set: LBRACE elements RBRACE .": _AFTER_VALUE,
    "set: LBRACE elements COMMA RBRACE .": _AFTER_VALUE,
    # values that have begun
    "conditional: IF . expression THEN expression ELSE expression": "a condition after `if`",
    "conditional: IF expression THEN . expression ELSE expression": "a value after `then`",
    "conditional: IF expression THEN expression ELSE . expression": "a value after `else`",
    "disjunction: disjunction OR . conjunction": "a condition after `or`",
    "conjunction: conjunction AND . negation": "a condition after `and`",
    "negation: NOT . negation": "a condition after `not`",
    "comparison: sum COMPARE . sum": "a value after `{before}`",
    "comparison: sum IN . sum": "a set or list after `in`, as {{0, 1}}",
    "comparison: sum NOT . IN sum": "`in` after `not`",
    "comparison: sum NOT IN . sum": "a set or list after `not in`, as {{0, 1}}",
    "sum: sum PLUS . product": "a value after `+`",
    "sum: sum MINUS . product": "a value after `-`",
    "product: product STAR . signed": "a value after `*`",
    "product: product SLASH . signed": "a value after `/`",
    "signed: MINUS . signed": "a value after `-`",
    "power: postfix CIRCUMFLEX . signed": "an exponent after `^`",
    "postfix: postfix DOT . NAME": "a name after `.`",
    "postfix: postfix LSQB . expression RSQB": "a key after `[`",
    "postfix: postfix LPAR . RPAR": "an argument or `)` after `(`",
    "atom: LPAR . expression RPAR": "an expression after `(`",
    "list: LSQB . RSQB": "a value or `]` after `[`",
    "set: LBRACE . RBRACE": "a value or `}}` after `{{`",
    "elements: elements COMMA . expression": "a value after `,`{end}",
    # arguments
    "argument: NAME . EQUAL expression": _AFTER_VALUE,
    "argument: NAME EQUAL . expression": "the value of an argument after `=`",
    "argument: WHERE . EQUAL expression": "`=` after `where`, or a value before it",
    "argument: WHERE EQUAL . expression": "the value of an argument after `=`",
    "argument: OVER . EQUAL expression": "`=` after `over`, or a value before it",
    "argument: OVER EQUAL . expression": "the value of an argument after `=`",
    "arguments: arguments COMMA . argument": "an argument after `,`{end}",
    "argument: expression OVER . axes": "an axis after `over`, as `turn` or `(traj, turn)`",
    "argument: expression OVER axes ALIGN . NAME": "an axis after `align`, as `turn`",
    "argument: expression OVER axes WHERE . expression": "a condition after `where`",
    "argument: expression OVER axes ALIGN NAME .": "`where` and a condition{end}",
    "argument: expression OVER axes ALIGN NAME WHERE . expression": "a condition after `where`",
    "axes: NAME .": "`align` and an axis, `where` and a condition{end}",
    "axes: LPAR . axis_names COMMA RPAR": "an axis after `(`",
    "axes: LPAR axis_names RPAR .": "`align` and an axis, `where` and a condition{end}",
    "axes: LPAR axis_names COMMA . RPAR": "an axis or `)` after `,`",
    "axes: LPAR axis_names COMMA RPAR .": "`align` and an axis, `where` and a condition{end}",
    "axis_names: NAME .": "`,` and another axis, or `)`",
    "axis_names: axis_names COMMA NAME .": "`,` and another axis, or `)`",
}

# What may follow a finished value, in the order in which it is said.
_ENDS = {
    "OVER": "`over`",
    "THEN": "`then`",
    "ELSE": "`else`",
    "EQUAL": "`=`",
    "LBRACE": "`{`",
    "COMMA": "`,`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "NAME": "the next item",
    "RBRACE": "`}`",
    END: "the end",
}

# What people write for something else: (the token that came, one of what was accepted there) and what to say
# then.
_HINTS: dict[tuple[str, str], str] = {
    ("EQUAL", "COMPARE"): "a comparison is written `==`",
    ("STAR", "NUMBER"): "a power is written `^`",
    ("SLASH", "NUMBER"): "a comment begins with `#`",
    ("SLASH", "NAME"): "a comment begins with `#`",
    ("COMPARE", "PLUS"): "comparisons do not chain: join two of them by `and`",
    ("COLON", "THEN"): "write `if condition then value else value`",
    ("COMMA", "NAME"): "items need no separator",
    ("WHERE", "OVER"): "`where` follows an axis: `value over turn where condition`",
    ("ALIGN", "OVER"): "`align` follows an axis: `value over traj align turn`",
    ("COLON", "COMMA"): "an argument's name is followed by `=`",
    ("IF", "NUMBER"): "put a conditional inside a formula into parentheses",
    ("DOT", "NUMBER"): "a number begins with a digit, as in 0.5",
}


def expectation(state: int, start: str, tables: Tables, accepted: Collection[str], before: Token | None, found: Token):
    """What to say of a token that does not fit after a state. `accepted` are the terminals that would
    have."""
    kernel = tables.kernels[state]
    key = kernel[0] if kernel else "" if start == "file" else start
    ends = [words for terminal, words in _ENDS.items() if terminal in accepted]
    phrase = EXPECTED[key]
    if "{end}" in phrase:
        stem = phrase.replace("{end}", "")
        for words in list(ends):
            if f"{words} " in f"{stem} ".replace("{{", "{").replace("}}", "}"):
                ends.remove(words)
        phrase = stem.format(before=before.text if before else "") + _joined(ends)
    else:
        phrase = phrase.format(before=before.text if before else "")
    instead = _meant(found, accepted, tables)
    if instead:
        label = f"did you mean `{instead}`?"
    else:
        label = next((hint for (came, ok), hint in _HINTS.items() if came == found.kind and ok in accepted), "")
    reserved = found.kind in tables.keywords.values() and found.kind not in ("TRUE", "FALSE")
    if not label and reserved and "NAME" in accepted:
        label = f"`{found.text}` is a word of the language and cannot be a name"
    return Expectation(f"expected {phrase}, found {shown(found)}".replace(",,", ","), label, instead)


def shown(token: Token) -> str:
    """A token as messages name it."""
    if token.kind == END:
        return "the end of the text"
    text = token.text if len(token.text) <= 30 else token.text[:27] + "..."
    return {"TEXT": f"the text {text}", "NUMBER": f"the number {text}"}.get(token.kind, f"`{text}`")


def _joined(ends: list[str]) -> str:
    """`, a, b or c`"""
    if not ends:
        return ""
    return "".join(f", {words}" for words in ends[:-1]) + f" or {ends[-1]}"


def _meant(found: Token, accepted: Collection[str], tables: Tables) -> str | None:
    """The word of the language that a name was probably meant to be, among those that would have fitted."""
    if found.kind != "NAME":
        return None
    words = {**tables.keywords, **tables.contextual}
    return near_name(found.text.lower(), (word for word, kind in words.items() if kind in accepted))
