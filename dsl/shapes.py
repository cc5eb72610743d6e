"""What tokens look like before anything is parsed: where an item could begin, where its head ends, where a block was
probably meant to open, whether one is closed where its indentation says. Newlines mean nothing to the grammar; the
recovery from mistakes asks these questions."""

from __future__ import annotations

from rlspec.dsl.tables import END
from rlspec.dsl.tokens import Token

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
    """The index behind a head that begins at a token, `: component` included, and whether it has that."""
    stop = head_stop(tokens, index)
    if tokens[stop].kind == "COLON" and tokens[stop + 1].kind == "NAME":
        stop += 2
        while tokens[stop].kind == "DOT" and tokens[stop + 1].kind == "NAME":
            stop += 2
        return stop, True
    return stop, False


def closed_at(tokens: list[Token], index: int, column: int) -> bool:
    """Whether the first line from a token on that is indented no deeper than a column begins with a `}` there."""
    for at in range(index, min(index + _LONGEST_BLOCK, len(tokens))):
        token = tokens[at]
        if token.first and (token.column <= column or token.kind == END):
            return token.kind == "RBRACE" and token.column == column
    return False


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
