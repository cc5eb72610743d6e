"""What tokens look like before anything is parsed: where an item could begin, where its head ends, where a block was
probably meant to open, whether one is closed where its indentation says. Newlines mean nothing to the grammar; the
recovery from mistakes asks these questions."""

from __future__ import annotations

from rlspec.dsl.tables import END
from rlspec.dsl.tokens import Token

CLOSING = {"LBRACE": "RBRACE", "LPAR": "RPAR", "LSQB": "RSQB"}
OPENING = {closing: opening for opening, closing in CLOSING.items()}
# How many tokens a look ahead for the end of a line, a head or a block takes into account, so that it stays cheap on
# garbage.
LONGEST_LINE = 200
_LONGEST_HEAD = 32
_LONGEST_BLOCK = 2000
# Behind these, a line goes on.
UNFINISHED = frozenset(
    {"EQUAL", "PLUS", "MINUS", "STAR", "SLASH", "CIRCUMFLEX", "COMPARE", "IN", "AND", "OR", "NOT", "COMMA", "LPAR"}
    | {"THEN", "ELSE", "IF", "COLON", "AT", "EXTENDS", "ON", "DOT", "WHERE", "OVER", "ALIGN", "LBRACE", "LSQB"}
)
# Nothing begins with these.
INFIX = frozenset(
    {"EQUAL", "COLON", "AT", "COMMA", "DOT", "COMPARE", "STAR", "SLASH", "CIRCUMFLEX", "RPAR", "RSQB"}
    | {"THEN", "ELSE", "AND", "OR", "IN", "OVER", "WHERE", "ALIGN", "EXTENDS"}
)
# What a type is followed by, and a component that a block is for.
_BEHIND_TYPE = ("AT", "IN", "EQUAL", "LBRACE")


def item_shape(tokens: list[Token], index: int) -> bool:
    """Whether an item could begin at a token: a path, labels, then `=`, `{` or `:`, on one line; or `def` and a name
    with parameters."""
    stop = head_stop(tokens, index)
    sign = tokens[stop]
    if sign.kind == "LPAR":
        return stop == index + 2 and tokens[index].text == "def" and sign.line == tokens[index].line
    return stop > index and sign.kind in ("EQUAL", "LBRACE", "COLON") and sign.line == tokens[index].line


def head_stop(tokens: list[Token], index: int) -> int:
    """The index behind the path and labels that begin at a token, or the index itself when none do."""
    line, limit = tokens[index].line, index + _LONGEST_HEAD
    if tokens[index].kind != "NAME":
        return index
    index += 1
    while tokens[index].kind == "DOT" and tokens[index + 1].kind == "NAME" and index < limit:
        index += 2
    while tokens[index].kind in ("NAME", "TEXT") and tokens[index].line == line and index < limit:
        index += 1
    return index


def typed_stop(tokens: list[Token], index: int) -> tuple[int, bool]:
    """The index behind a head that begins at a token, `: component` or `extends name` included, and whether it has
    that."""
    stop = head_stop(tokens, index)
    typed = stop > index and tokens[stop].kind in ("COLON", "EXTENDS") and tokens[stop + 1].kind == "NAME"
    if typed:
        stop += 2
        while tokens[stop].kind == "DOT" and tokens[stop + 1].kind == "NAME":
            stop += 2
    return stop, typed


def closed_at(tokens: list[Token], index: int, column: int) -> bool:
    """Whether the first line from a token on that is indented no deeper than a column begins with a `}` there."""
    for at in range(index, min(index + _LONGEST_BLOCK, len(tokens))):
        token = tokens[at]
        if token.first and (token.column <= column or token.kind == END):
            return token.kind == "RBRACE" and token.column == column
    return False


def closes(tokens: list[Token], index: int, column: int) -> bool:
    """Whether the `{` at an index is closed before the next item that is indented no deeper than a column."""
    depth = 0
    for at in range(index + 1, min(index + _LONGEST_BLOCK, len(tokens))):
        token = tokens[at]
        if token.first and token.column <= column and item_shape(tokens, at):
            return False
        if token.kind == "LBRACE":
            depth += 1
        elif token.kind == "RBRACE":
            depth -= 1
            if depth < 0:
                return True
    return False


def closes_later(tokens: list[Token], index: int, opened: Token, column: int) -> bool:
    """Whether the rest of the line behind a token closes a bracket that is open before it; of a bracket that was opened
    on an earlier line, indented as far as a column, whether anything behind does, before the next item."""
    token, depth = tokens[index], 0
    line, before = token.line, opened.line < token.line
    if before and token.first:
        return False
    for at in range(index + 1, min(index + LONGEST_LINE, len(tokens))):
        token = tokens[at]
        if token.kind == END or (token.line != line and not before):
            return False
        if token.first and token.column <= column and token.kind == "NAME":
            return False
        if token.kind == opened.kind:
            depth += 1
        elif token.kind == CLOSING[opened.kind]:
            depth -= 1
            if depth < 0:
                return True
    return False


def closings_ahead(tokens: list[Token], index: int, column: int) -> int:
    """How many `)` and `]` from a token on close what was opened before it, up to the next item that is indented no
    deeper than a column."""
    depth = found = 0
    for at in range(index, min(index + _LONGEST_BLOCK, len(tokens))):
        token = tokens[at]
        if token.first and token.column <= column and token.kind == "NAME":
            break
        if token.kind in ("LPAR", "LSQB"):
            depth += 1
        elif token.kind in ("RPAR", "RSQB"):
            found += depth == 0
            depth -= depth > 0
    return found


def missing_openings(tokens: list[Token], wanted: int, regular: bool) -> set[int]:
    """Where the file has too many closing braces: the tokens before which a `{` was probably forgotten,
    behind `kind label : component` when a deeper line or, before a `}` of the same line, another item
    follows."""
    found: set[int] = set()
    for index, token in enumerate(tokens):
        if len(found) >= wanted and not regular:
            break
        if not token.first or token.kind != "NAME":
            continue
        stop, typed = typed_stop(tokens, index)
        if not typed and tokens[stop].kind == "DOT":
            stop -= 1
        after = tokens[stop]
        if stop < index + 2 and not after.first:
            continue
        if after.kind == "NAME" and after.first and after.column > token.column:
            sure = item_shape(tokens, stop) and (typed or closed_at(tokens, stop, token.column))
            if sure or (len(found) < wanted and stop > index + 1):
                found.add(stop)
        elif after.kind == "RBRACE" and typed and not after.first:
            found.add(stop)
        elif after.kind == "NAME" and not after.first and item_shape(tokens, stop):
            line = [t.kind for t in tokens[stop : stop + LONGEST_LINE] if t.line == token.line]
            more = line.count("RBRACE") > line.count("LBRACE")
            if (typed and more) or (len(found) < wanted and (typed or more)):
                found.add(stop)
    return found


def opens_block(tokens: list[Token], head: int, index: int) -> bool:
    """Whether `(` or `[` stands where the `{` of a block is meant: behind a head that begins the line, and items
    follow, inside of the line or on deeper ones."""
    if tokens[head].kind != "NAME" or tokens[head].text == "def":
        return False
    stop, _ = typed_stop(tokens, head)
    after = tokens[index + 1]
    if stop != index or tokens[head].line != tokens[index].line:
        return False
    if after.first:
        return after.column > tokens[head].column and item_shape(tokens, index + 1)
    line = [t.kind for t in tokens[index + 1 : index + LONGEST_LINE] if t.line == after.line]
    more = line.count("RBRACE") > line.count("LBRACE")
    return more and (after.kind == "RBRACE" or item_shape(tokens, index + 1))


def opens_nothing(tokens: list[Token], index: int, column: int) -> bool:
    """Whether a `{` stands where neither a block nor a set may: behind a `.` or `@`, between a name and `(`, or, if
    nothing closes it, before a sign that nothing begins with or before a type. Its line is indented as far as a
    column."""
    if not index:
        return False
    before, after = tokens[index - 1], tokens[index + 1]
    if before.kind == "DOT" and _name_misplaced(tokens, index, column):
        return False
    if before.kind in ("DOT", "AT") or (before.kind == "NAME" and after.kind == "LPAR"):
        return True
    typed = before.kind == "COLON" and after.kind == "NAME" and tokens[index + 2].kind in _BEHIND_TYPE
    infix = after.kind in INFIX and not (after.first and after.kind == "EQUAL")
    return (typed or infix) and not closes(tokens, index, column)


def _name_misplaced(tokens: list[Token], index: int, column: int) -> bool:
    """`stage. {` or `stage.{ train`, and items on the next lines."""
    at = index + 1 if tokens[index + 1].first else min(index + 2, len(tokens) - 1)
    return tokens[at].first and tokens[at].column > column and item_shape(tokens, at)


def is_call(tokens: list[Token], index: int, column: int) -> bool:
    """Whether a `{` stands right behind a name in a value, and a `)` is what closes it. The bracket around it was
    opened on a line that is indented as far as a column."""
    if index < 2 or tokens[index - 1].kind != "NAME" or tokens[index - 1].stop != tokens[index].start:
        return False
    if tokens[index - 2].kind not in UNFINISHED or tokens[index - 2].kind == "COLON":
        return False
    depth = 0
    for token in tokens[index + 1 : index + LONGEST_LINE]:
        if token.first and token.column <= column:
            return False
        if token.kind in CLOSING:
            depth += 1
        elif token.kind in OPENING:
            depth -= 1
            if depth < 0:
                return token.kind == "RPAR"
    return False
