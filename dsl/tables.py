"""The parse tables of the grammar, made by Lark and kept as JSON.

Lark reads `grammar.lark`, checks it and computes the LALR(1) tables; we keep from it only what a driver needs
(which words and signs there are, what each state does with each, the productions), in an order that depends
on nothing but the grammar. `grammar.json` beside it holds them, so a check never imports Lark; `python -m
rlspec.dsl.tables` writes it, and a test fails while it is not that of the grammar.

Where it is not (somebody works on the grammar, or packed the one file without the other) the tables come from
a cache, or are made and put there. The cache is a folder of our own (`$RLSPEC_CACHE`, else
`$XDG_CACHE_HOME/rlspec`, else `~/.cache/rlspec`), open to its owner only. It is never trusted: a file that is
missing, damaged, somebody else's or cannot be written is as good as none.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from functools import cache

from rlspec.dsl import compiled
from rlspec.dsl.annotations import TYPE_CHECKING, Any
from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.sha import sha256

if TYPE_CHECKING:
    from pathlib import Path

GRAMMAR = os.path.join(os.path.dirname(__file__), "grammar.lark")
STARTS = ("file", "lone_expression", "lone_type")
END = "$END"
# Words that are reserved only where no name may stand.
CONTEXTUAL = ("on",)
SHIPPED = os.path.join(os.path.dirname(__file__), "grammar.json")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Tables:
    """What the driver runs on.

    `actions[state][terminal]` is the next state when it is not negative, else the production `-1 - action`;
    `gotos[state][nonterminal]` the state after a reduction. A production is (nonterminal, length, name), with
    an empty name when it passes its only child on. `kernels[state]` says in words of the grammar what the
    state has read.
    """

    actions: list[dict[str, int]]
    gotos: list[dict[str, int]]
    kernels: list[list[str]]
    rules: list[tuple[str, int, str]]
    starts: dict[str, int]
    ends: dict[str, int]
    keywords: dict[str, str]
    contextual: dict[str, str]
    signs: dict[str, str]
    patterns: dict[str, str]
    # Filled by the automaton as it runs; not part of the tables.
    chains: dict[tuple[int, str, str], tuple[int, int | None]] = field(default_factory=dict, compare=False, repr=False)


def build(strict: bool = False) -> Tables:
    """Compute the tables with Lark. `strict` needs the package `interegular`, and raises lark's GrammarError
    or LexError for any conflict between productions or collision between terminals."""
    from lark import Lark
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    # `debug` keeps each state's items, from which the kernels are read.
    lark = Lark(
        _content(GRAMMAR).decode(),
        parser="lalr",
        lexer="contextual",
        start=list(STARTS),
        maybe_placeholders=False,
        strict=strict,
        debug=True,
    )
    made = lark.parser.parser._parse_table

    # Lark numbers states in the order of sets; we number them in the order in which they are reached.
    order: list[Any] = []
    number: dict[Any, int] = {}

    def visit(state: Any) -> None:
        if state not in number:
            number[state] = len(order)
            order.append(state)

    for name in STARTS:
        visit(made.start_states[name])
    for state in order:
        for _, (action, target) in sorted(made.states[state].items()):
            if action is Shift:
                visit(target)

    rules: list[tuple[str, int, str]] = []
    known: dict[tuple[str, int, str, str], int] = {}
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    kernels: list[list[str]] = []
    terminals = {t.name for t in lark.terminals} | {END}
    for state in order:
        act: dict[str, int] = {}
        goto: dict[str, int] = {}
        for symbol, (action, target) in sorted(made.states[state].items()):
            if action is not Shift:
                parts = " ".join(s.name for s in target.expansion)
                name = target.alias or ("" if len(target.expansion) == 1 else str(target.origin.name))
                key = (str(target.origin.name), len(target.expansion), name, parts)
                if key not in known:
                    known[key] = len(rules)
                    rules.append(key[:3])
                act[symbol] = -1 - known[key]
            elif symbol in terminals:
                act[symbol] = number[target]
            else:
                goto[symbol] = number[target]
        actions.append(act)
        gotos.append(goto)
        kernels.append(sorted(_item(p) for p in state if p.index > 0))

    words = [t for t in lark.terminals if isinstance(t.pattern, PatternStr)]
    spelt = {t.pattern.value: t.name for t in words}
    return Tables(
        actions=actions,
        gotos=gotos,
        kernels=kernels,
        rules=rules,
        starts={name: number[made.start_states[name]] for name in STARTS},
        ends={name: number[made.end_states[name]] for name in STARTS},
        keywords={w: t for w, t in sorted(spelt.items()) if w.isidentifier() and w not in CONTEXTUAL},
        contextual={w: spelt[w] for w in CONTEXTUAL},
        signs={w: t for w, t in sorted(spelt.items()) if not w.isidentifier()},
        patterns={t.name: t.pattern.to_regexp() for t in lark.terminals if t not in words},
    )


def _item(pointer: Any) -> str:
    """`sum: sum + . product`, with terminals by their names."""
    names = [s.name for s in pointer.rule.expansion]
    names.insert(pointer.index, ".")
    return f"{pointer.rule.origin.name}: {' '.join(names)}"


# --------------------------------------------------------------------------------------------- where they are


@cache
def load() -> Tables:
    """The tables: those beside the grammar, else from the cache, else made now."""
    tables = _read_shipped()
    if tables is not None:
        return tables
    place = _place()
    tables = _read(place) if place else None
    if tables is None:
        tables = build()
        if place:
            write_kept(place, _body(tables))
    return tables


def ship() -> None:
    """Write the tables beside the grammar. Raises OSError where that cannot be written."""
    with open(SHIPPED, "wb") as file:
        file.write(_grammar_digest() + b"\n" + _body(build()) + b"\n")


def _grammar_digest() -> bytes:
    return sha256(f"{FORMAT}\0".encode() + _content(GRAMMAR)).hexdigest().encode()


def _read_shipped() -> Tables | None:
    """The tables beside the grammar, if they are of this grammar."""
    try:
        digest, _, body = _content(SHIPPED).partition(b"\n")
        if digest != _grammar_digest():
            return None
        return Tables(**compiled.kept(f"tables {sha256(body).hexdigest()}", lambda: _parts(body)))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _tables(body: bytes) -> Tables:
    return Tables(**_parts(body))


def _parts(body: bytes) -> dict[str, Any]:
    import json

    data: dict[str, Any] = json.loads(body)
    data["rules"] = [tuple(rule) for rule in data["rules"]]
    return data


def _content(path: str | Path) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _body(tables: Tables) -> bytes:
    """JSON with a line for each part, so that a change of the grammar is a small difference."""
    import json

    names = [name for name in Tables.__slots__ if name != "chains"]
    parts = {name: getattr(tables, name) for name in names}
    lines = [f"{json.dumps(name)}:{json.dumps(part, separators=(',', ':'))}" for name, part in parts.items()]
    return ("{" + ",\n".join(lines) + "}").encode()


def cache_folder() -> Path | None:
    """The folder of our caches, or None where there is no home to put one in, or where `$RLSPEC_CACHE` names none
    (`off`, or whatever is no absolute path)."""
    from pathlib import Path

    named = os.environ.get("RLSPEC_CACHE")
    if named:
        return Path(named) if os.path.isabs(named) else None
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and os.path.isabs(shared):
        return Path(shared, "rlspec")
    home = os.path.expanduser("~")
    return Path(home, ".cache", "rlspec") if os.path.isabs(home) else None


def _place() -> Path | None:
    folder = cache_folder()
    if folder is None:
        return None
    return folder / f"grammar-{_key()}.json"


def _key() -> str:
    """Everything that the tables depend on: the grammar, Lark's version (read from its text, without
    importing it), Python's, and the format."""
    parts: Iterable[bytes] = (
        _content(GRAMMAR),
        _content(__file__),
        _lark_version().encode(),
        repr((sys.version_info[:3], FORMAT, STARTS, CONTEXTUAL)).encode(),
    )
    return sha256(b"\0".join(parts)).hexdigest()[:32]


def _lark_version() -> str:
    from importlib.util import find_spec

    found = find_spec("lark")
    if found is None or not found.origin:
        return "?"
    import re

    match = re.search(r"""__version__.*?["']([^"']+)["']""", _content(found.origin).decode())
    return match[1] if match else "?"


def _read(place: Path) -> Tables | None:
    """The tables of a cache file, or None when it is not a sound file of ours."""
    body = read_kept(place)
    try:
        return None if body is None else _tables(body)
    except (ValueError, TypeError, KeyError):
        return None


def read_kept(place: Path) -> bytes | None:
    """What `write_kept` has put down, or None when it is not a sound file of ours."""
    try:
        for path in (place.parent, place):
            info = os.stat(path)
            ours = not hasattr(os, "geteuid") or info.st_uid == os.geteuid()
            if not ours or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
        digest, _, body = place.read_bytes().partition(b"\n")
        return body if sha256(body).hexdigest().encode() == digest else None
    except OSError:
        return None


def write_kept(place: Path, body: bytes) -> None:
    """Put a file of the cache down, all or nothing; a folder that cannot be written is left alone."""
    from contextlib import suppress  # most runs write nothing

    draft = place.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        try:
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as out:
                out.write(sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(draft, place)
        except OSError:
            draft.unlink(missing_ok=True)


if __name__ == "__main__":
    ship()
