"""Cures that are read off a mistake's text: units, quotes, brackets, separators and words of other languages.

Each is offered only where one reading is left: `200step` counts steps, `lr: 3e-4` gives lr a value. `16turns` is left
alone, because it may mean two things. Whoever applies them checks again (`rlspec.dsl.fixes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rlspec.dsl import compiled
from rlspec.dsl.diagnostics import Diagnostic, Fix, Source
from rlspec.dsl.slips import slip
from rlspec.dsl.tree import Span

TYPES = {"float": "real", "double": "real", "integer": "int", "boolean": "bool", "string": "text", "str": "text"}
LEVELS = {"trajectory": "traj", "trajectories": "traj", "constant": "const"}

_COUNTS = compiled.pattern(r"counts (\w+), not (\w+)$")
_UNKNOWN_UNIT = compiled.pattern(r"unknown unit `(\w+)`$")
_NEAR = compiled.pattern(r"did you mean `([^`]+)`\?")
_ITEM = compiled.pattern(r"\s*[A-Za-z_][\w.]*\s*[={]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def cure(diagnostic: Diagnostic, source: Source) -> Fix | None:
    """The one edit that cures the mistake, if there is one."""
    if diagnostic.severity != "error" or diagnostic.span is None:
        return None
    tried = (c(diagnostic, source.text, diagnostic.span) for c in _CURES.get(diagnostic.code, ()))
    return next((fix for fix in tried if fix is not None), None)


def _once(text: str, span: Span, pattern: str, instead: str) -> Fix | None:
    """The only place within the span where the pattern occurs."""
    places = list(re.compile(pattern).finditer(text, span.start, span.stop))
    return Fix(Span(places[0].start(), places[0].end()), instead) if len(places) == 1 else None


def _unit(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`200step`, `16Agent_turns`, `384tokns`: the unit that was meant, behind its number."""
    counts, unknown = _COUNTS.search(diagnostic.message), _UNKNOWN_UNIT.search(diagnostic.message)
    near = _NEAR.fullmatch(diagnostic.label)
    if counts is not None:
        meant, given = counts.groups()
    elif unknown is not None and near is not None:
        given, meant = unknown[1], near[1]
    else:
        return None
    same = given.casefold().removesuffix("s") == meant.casefold().removesuffix("s")
    if not same and not slip(given.casefold(), meant):
        return None
    return _once(text, span, rf"(?<=[0-9]){re.escape(given)}\b", meant)


def _quoted_choice(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`split = "test"`: choices are names."""
    near = _NEAR.fullmatch(diagnostic.label)
    if near is None or not diagnostic.message.endswith(f'not "{near[1]}"'):
        return None
    return _once(text, span, re.escape(f'"{near[1]}"'), near[1])


def _doubled_equal(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`lr == 3e-4` where a head ends."""
    heads = "`=`" in diagnostic.message and diagnostic.message.endswith("found `==`")
    return Fix(span, "=") if heads and text[span.start : span.stop] == "==" else None


def _colon(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`lr: 3e-4`: a number or text behind a colon is a value."""
    if not re.search(r"after `:`, found the (number|text)", diagnostic.message):
        return None
    at = len(text[: span.start].rstrip()) - 1
    return Fix(Span(at, at + 1), " =" if text[at - 1 : at].strip() else "=") if text[at : at + 1] == ":" else None


def _separator(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`lr = 3e-4, steps = 9`: nothing stands between items."""
    if "items need no separator" not in diagnostic.label or text[span.start : span.stop] not in (",", ";"):
        return None
    if text[: span.start].rstrip()[-1:] in ("=", ",", ":", "(", "[", "{"):
        return None  # a value is missing
    return Fix(span, "" if text[span.stop : span.stop + 1] in " \n\r\t}" else " ")


def _apart_percent(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`35 %`: the sign stands right behind its number."""
    before = text[: span.start].rstrip(" ")
    if text[span.start : span.stop] != "%" or not before[-1:].isdigit():
        return None
    return Fix(Span(len(before), span.start), "")


def _parentheses(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
    """`tiny ( width = 64 )`: a block stands between braces. Only where items are in it and what closes it is found."""
    wanted = diagnostic.label == "expected `{`" or re.search(r"or `\{`, found `[(\[]`$", diagnostic.message)
    if not wanted or text[span.start : span.stop] not in ("(", "["):
        return None
    if not _ITEM.match(text, span.stop):
        return None
    open_brackets = [text[span.start]]
    for match in re.compile(r'"(?:\\.|[^"\\\n])*"|#[^\n]*|[()\[\]{}]').finditer(text, span.stop):
        sign = match[0]
        if sign in _CLOSING:
            open_brackets.append(sign)
        elif sign in _CLOSING.values():
            opening = open_brackets.pop()
            if not open_brackets:
                if sign == "}":
                    return Fix(span, "{")
                whole = Span(span.start, match.end())
                return Fix(whole, "{" + text[span.stop : match.start()] + "}") if sign == _CLOSING[opening] else None
            if sign != _CLOSING[opening]:
                return None
    return None


def _foreign_name(words: dict[str, str]) -> Callable[[Diagnostic, str, Span], Fix | None]:
    def offered(diagnostic: Diagnostic, text: str, span: Span) -> Fix | None:
        named = re.search(r"^unknown (?:type|level|axis) `(\w+)`$", diagnostic.message)
        if named is None or named[1] not in words:
            return None
        return _once(text, span, rf"\b{named[1]}\b", words[named[1]])

    return offered


_CURES: dict[str, tuple[Callable[[Diagnostic, str, Span], Fix | None], ...]] = {
    "RLC0003": (_separator, _apart_percent),
    "RLC0005": (_doubled_equal, _colon, _separator, _parentheses),
    "RLC0006": (_parentheses,),
    "RLC0202": (_quoted_choice,),
    "RLC0204": (_foreign_name(TYPES),),
    "RLC0302": (_foreign_name(LEVELS),),
    "RLC0305": (_unit,),
}
