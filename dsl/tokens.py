"""From text to tokens, in one pass that also gives the comments and the lexical errors.

The terminals are those of the grammar's tables. A character that no token begins with is reported and treated
as a blank, so that positions stay true and the parser goes on; where it is clear what was meant (`'text'`,
`&&`) the token that was meant takes its place. A line with such an error is tainted: what the parser finds on
it is not reported again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from rlspec.dsl import compiled, conflicts
from rlspec.dsl.annotations import TYPE_CHECKING, NamedTuple
from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.diagnostics import Diagnostic, Fix
from rlspec.dsl.tables import END, Tables
from rlspec.dsl.tree import Comment, Span

if TYPE_CHECKING:
    import re


class Token(NamedTuple):
    """`kind` is the terminal's name in the grammar; `first` tells that it begins its line (0-based), at
    `column`."""

    kind: str
    text: str
    start: int
    stop: int
    line: int
    column: int
    first: bool

    @property
    def span(self) -> Span:
        return Span(self.start, self.stop)

    @property
    def synthetic(self) -> bool:
        """Put in by the layout repair; not in the text."""
        return self.start == self.stop and self.kind != END


@dataclass(slots=True)
class Scan:
    """The tokens end with one of kind `$END`; `tainted` are the lines with an error that was reported;
    `doubtful` are errors to report only if nothing else is wrong; `cut` tells that the list is only the
    beginning of the text's."""

    tokens: list[Token]
    comments: list[Comment] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    doubtful: list[Diagnostic] = field(default_factory=list)
    tainted: set[int] = field(default_factory=set)
    cut: bool = False

    def copy(self) -> Scan:
        """The same as it is now, whatever becomes of this one."""
        return Scan([*self.tokens], [*self.comments], [*self.diagnostics], [*self.doubtful], {*self.tainted}, self.cut)


# Foreign spellings: the words that say so, what takes their place in the token list, and whether a fix is
# safe.
_FOREIGN: dict[str, tuple[str, str | None]] = {
    "&&": ("`and`", "and"),
    "||": ("`or`", "or"),
    "!": ("`not`", "not"),
    ";": ("nothing: items need no separator", None),
    "%": ("a percent sign right behind its number, as in 57.4%", None),
    "\\": ("nothing: an expression goes on over lines by itself", None),
    "–": ("`-`", "-"),
    "−": ("`-`", "-"),
    "×": ("`*`", "*"),
    "·": ("`*`", "*"),
    "÷": ("`/`", "/"),
    "≤": ("`<=`", "<="),
    "≥": ("`>=`", ">="),
    "≠": ("`!=`", "!="),
    "∈": ("`in`", "in"),
    "→": ("`=` or `:`", None),
}
_FOREIGN_SIGN = compiled.pattern("|".join(compiled.escaped(word) for word in sorted(_FOREIGN, key=len, reverse=True)))
# Texts in other quotes; bounded, so that a line of opening quotes costs no more than its length.
_FOREIGN_TEXT = compiled.pattern('\'[^\'"\n]{0,200}\'|“[^”"\n]{0,200}”|«[^»"\n]{0,200}»|`[^`"\n]{0,200}`')
# What closes a line behind a text that was not closed: it is given back, so that one fault stays one.
_CLOSERS = " \t\r\f,)]}"
_FOREIGN_COMMENT = ("/", "*")
_DASHES = compiled.pattern(r"--[ \t]+[A-Za-z]+[ \t]+(?!(?:and|or|in|not|over|where|then|else|if)\b)[A-Za-z]")
_WORD = compiled.pattern(r"\w+")
_ESCAPE = compiled.pattern(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_NUMBER = compiled.pattern(r"([0-9]+(?:_[0-9]+)*)(\.[0-9]+(?:_[0-9]+)*)?([eE][+-]?[0-9]+)?(.*)", compiled.DOTALL)


@cache
def _matcher(patterns: tuple[tuple[str, str], ...], signs: tuple[str, ...]) -> Callable[..., re.Match[str] | None]:
    """One pattern for all terminals; a word of the grammar is found as a NAME and looked up."""
    spelt = "|".join(compiled.escaped(sign) for sign in sorted(signs, key=len, reverse=True))
    named = [f"(?P<{name}>{pattern})" for name, pattern in patterns]
    return compiled.pattern("|".join([*named, f"(?P<SIGN>{spelt})"])).match


def scan(text: str, tables: Tables) -> Scan:
    """The tokens of a text. Never raises."""
    order = ("SPACE", "NAME", "NUMBER", "COMPARE", "TEXT", "COMMENT")
    match = _matcher(tuple((name, tables.patterns[name]) for name in order), tuple(tables.signs))
    keywords, signs = tables.keywords, tables.signs
    out = Scan([])
    add, make = out.tokens.append, tuple.__new__  # a tuple's own constructor takes half the time of the class's
    position, line, line_start, first, stop = 0, 0, 0, True, len(text)
    if any(sign in text for sign in conflicts.SIGNS):
        text, said, out.tainted = conflicts.hidden(text)
        out.diagnostics += said
    if text.startswith("\ufeff"):
        position = 1
    while position < stop:
        found = match(text, position)
        if found is None:
            position, token = _foreign(text, position, line, position - line_start, first, out, match, tables)
            if token is not None:
                add(token)
                first = False
            continue
        kind, end = found.lastgroup, found.end()
        if kind == "SPACE":
            breaks = text.count("\n", position, end)
            if breaks:
                line += breaks
                line_start = text.rfind("\n", position, end) + 1
                first = True
            position = end
            continue
        word = found.group()
        if kind == "COMMENT":
            out.comments.append(Comment(word.rstrip(), Span(position, position + len(word.rstrip()))))
            position = end
            continue
        if kind == "SIGN":
            if (word == "/" and text[end : end + 1] in _FOREIGN_COMMENT) or (first and _DASHES.match(text, position)):
                position = _comment(text, position, line, out)
                continue
            kind = signs[word]
        elif kind == "NAME":
            kind = keywords.get(word, "NAME")
        elif kind == "NUMBER":
            _check_number(word, position, out)
        elif kind == "TEXT" and "\\" in word:
            _check_escapes(word, position, out)
        add(make(Token, (kind, word, position, end, line, position - line_start, first)))
        first = False
        position = end + 1 if text[end : end + 1] == " " else end  # most tokens are followed by one blank
    add(Token(END, "", stop, stop, line, stop - line_start, True))
    return out


@lru_cache(maxsize=1024)
def number_parts(word: str) -> tuple[float, bool, str]:
    """Value, whether it was written as an integer, and unit of a NUMBER's text."""
    match = _NUMBER.match(word)
    assert match is not None
    whole, point, exponent, unit = match.groups()
    value = float((whole + (point or "") + (exponent or "")).replace("_", ""))
    return value, point is None and exponent is None, unit


def text_value(word: str) -> str:
    """What a TEXT's text says; unknown escapes (reported when scanned) stay as written."""
    inner = word[1:-1] if len(word) > 1 and word[-1] == word[0] else word[1:]
    return _ESCAPE.sub(_unescape, inner) if "\\" in inner else inner


def _unescape(match: re.Match[str]) -> str:
    if match[1] is not None:
        code = int(match[1], 16)
        return chr(code) if _is_character(code) else match[0]
    return _ESCAPES.get(match[2], match[0])


def _is_character(code: int) -> bool:
    return code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF


def _check_number(word: str, start: int, out: Scan) -> None:
    value, integral, unit = number_parts(word)
    if value == float("inf"):
        message, label = "a number that is too large", "no number is larger than 1.8e308"
    elif integral and int(word[: len(word) - len(unit)]) != int(value):
        message, label = "an integer that cannot be kept exactly", f"the nearest that can is {int(value)}"
    else:
        return
    out.diagnostics.append(Diagnostic("RLC0012", message, Span(start, start + len(word)), label=label))


def _check_escapes(word: str, start: int, out: Scan) -> None:
    for match in _ESCAPE.finditer(word, 1, len(word) - 1):
        known = _is_character(int(match[1], 16)) if match[1] is not None else match[2] in _ESCAPES
        if not known:
            out.diagnostics.append(
                Diagnostic(
                    "RLC0011",
                    f"unknown escape `{match[0]}` in a text",
                    Span(start + match.start(), start + match.end()),
                    label='one of \\n \\t \\r \\" \\\\ \\u{1F600}; write \\\\ for a backslash',
                )
            )


def _foreign(
    text: str,
    position: int,
    line: int,
    column: int,
    first: bool,
    out: Scan,
    match: Callable[..., re.Match[str] | None],
    tables: Tables,
) -> tuple[int, Token | None]:
    """Report what stands at a position where no token begins; return where to go on, and the token that was
    meant."""
    out.tainted.add(line)
    if text[position] == '"':
        return _unclosed(text, position, line, column, first, out)
    quoted = _FOREIGN_TEXT.match(text, position)
    if quoted is not None:
        word, span = quoted.group(), Span(position, quoted.end())
        proper = '"' + word[1:-1].replace("\\", "\\\\") + '"'
        out.diagnostics.append(
            Diagnostic(
                "RLC0003",
                "a text stands between straight double quotes",
                span,
                label=f"write {proper}",
                fix=Fix(span, proper),
            )
        )
        return span.stop, Token("TEXT", proper, span.start, span.stop, line, column, first)
    sign = _FOREIGN_SIGN.match(text, position)
    if sign is not None:
        word, span = sign.group(), Span(position, sign.end())
        meaning, instead = _FOREIGN[word]
        fix = Fix(span, f" {instead} " if instead.isidentifier() else instead) if instead else None
        label = f"write {meaning}"
        out.diagnostics.append(
            Diagnostic("RLC0003", f"`{word}` is not a sign of the language", span, label=label, fix=fix)
        )
        if instead is None:
            return span.stop, None
        kind = tables.keywords.get(instead) or tables.signs.get(instead) or "COMPARE"
        return span.stop, Token(kind, instead, span.start, span.stop, line, column, first)
    if text[position].isalnum():
        return _foreign_word(text, position, line, column, first, out)
    end = position + 1
    while (
        end < len(text)
        and text[end] not in '"\n'
        and match(text, end) is None
        and not _FOREIGN_TEXT.match(text, end)
        and not _FOREIGN_SIGN.match(text, end)
    ):
        end += 1
    word = text[position:end]
    shown = word if word.isprintable() and len(word) <= 12 else " ".join(f"U+{ord(c):04X}" for c in word[:4])
    message = f"`{shown}` begins no token" if word.isprintable() else f"an unprintable character, {shown}"
    out.diagnostics.append(Diagnostic("RLC0003", message, Span(position, end), label="remove this"))
    return end, None


def _comment(text: str, position: int, line: int, out: Scan) -> int:
    """A comment as other languages write it, up to the end of its line; return where to go on."""
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    closed = text.find("*/", position + 2, end)
    stop = end if text[position + 1] != "*" or closed < 0 else closed + 2
    fix = Fix(Span(position, position + 2), "#") if stop == end and closed < 0 else None
    span = Span(position, position + len(text[position:stop].rstrip()))
    out.tainted.add(line)
    out.diagnostics.append(Diagnostic("RLC0003", "a comment begins with `#`", span, label="write `#`", fix=fix))
    return stop


def _foreign_word(text: str, position: int, line: int, column: int, first: bool, out: Scan) -> tuple[int, Token]:
    """A word with a letter that names may not have is taken for a name, whole."""
    start = position
    if out.tokens and out.tokens[-1].stop == position and _WORD.fullmatch(out.tokens[-1].text):
        begun = out.tokens.pop()
        start, column, first = begun.start, begun.column, begun.first
    match = _WORD.match(text, position)
    end = match.end() if match else position + 1
    word = text[start:end]
    shown = word if len(word) <= 30 else word[:27] + "..."
    label = "names are made of the letters a to z, digits and _"
    out.diagnostics.append(Diagnostic("RLC0003", f"`{shown}` is not a name", Span(start, end), label=label))
    return end, Token("NAME", word, start, end, line, column, first)


def _unclosed(text: str, position: int, line: int, column: int, first: bool, out: Scan) -> tuple[int, Token | None]:
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    # A quote is missing somewhere on this line, so other strange signs on it may be parts of a text.
    while out.diagnostics and (last := out.diagnostics[-1].span) and last.start >= position - column:
        out.diagnostics.pop()
    stop = max(position + len(text[position:end].rstrip(_CLOSERS)), position + 1)
    out.diagnostics.append(
        Diagnostic(
            "RLC0004",
            "a text is not closed on its line",
            Span(position, end),
            label='expected `"` before the end of the line',
        )
    )
    return stop, Token("TEXT", text[position:stop], position, stop, line, column, first)
