"""Plants syntax faults in the repository's specs and counts what the parser says of them.

    python bench/language/recovery.py                        # 2,500 files, one to five faults each
    python bench/language/recovery.py --files 500 --seed 3 --show 5

A fault counts only when it is one by itself: Lark's tables, without our recovery, refuse the file with this fault
alone, or a head in it runs over its line. The faults of one file stand in different items and at least two lines apart
(`--same-item`: only the latter; a second mistake inside of one formula is often found only when the first is cured).
Printed are, for each kind of fault alone and for files with one to five: how many files had exactly as many diagnostics
as faults, how often the first diagnostic stood within a line of the first fault, and the most diagnostics that a file
had beyond its faults.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lark import Lark, Token

from rlspec.dsl.automaton import Automaton
from rlspec.dsl.diagnostics import Source, render
from rlspec.dsl.parser import parse
from rlspec.dsl.tables import GRAMMAR, load
from rlspec.dsl.tokens import scan

ROOT = Path(__file__).parents[2]
APART = 2  # lines between two faults of a file
TRIES = 20

WORDS = ("over", "where", "if", "then", "else", "and", "or", "not", "in", "align", "extends", "on")
STRAY = (
    ";",
    "$",
    "&&",
    "->",
    "=>",
    "'",
    "`",
    "@",
    "?",
    "!",
    "12",
    "word",
    ",",
    "=",
    ")",
    "}",
    "]",
    "{",
    "(",
    "\\",
    "|",
)
CONFLICT = ("<<<<<<< HEAD\n", "=======\n", ">>>>>>> experiment/longer\n")


@dataclass(frozen=True, slots=True)
class Fault:
    """Replace [start, stop) of the sound text by `text`; `first` and `last` are the (0-based) lines that it touches."""

    kind: str
    start: int
    stop: int
    text: str
    first: int
    last: int


class Spec:
    """A sound text, its tokens as Lark sees them, and its lines."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, path.read_text("utf-8")
        self.tokens = list(lexer().lex(self.text))
        self.starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        self.lines = self.text.splitlines(keepends=True)
        tree = reference().parse(self.text)
        found = tree.find_pred(lambda t: t.data in ("item_value", "item_body"))
        self.items = sorted((t.meta.end_pos - t.meta.start_pos, t.meta.start_pos, t.meta.end_pos) for t in found)

    def item_of(self, offset: int) -> int:
        """Where the innermost item around an offset begins."""
        return next((start for _, start, stop in self.items if start <= offset < stop), -1)

    def line_of(self, offset: int) -> int:
        return self.text.count("\n", 0, offset)

    def edit(self, kind: str, start: int, stop: int, text: str) -> Fault:
        return Fault(kind, start, stop, text, self.line_of(start), self.line_of(max(start, stop - 1)))


@cache
def lexer() -> Lark:
    return Lark(Path(GRAMMAR).read_text("utf-8"), parser="lalr", lexer="basic", start="file", propagate_positions=True)


@cache
def reference() -> Lark:
    text = Path(GRAMMAR).read_text("utf-8")
    return Lark(text, parser="lalr", lexer="contextual", start="file", propagate_positions=True,
                maybe_placeholders=False)  # fmt: skip


def sound(text: str) -> bool:
    """Whether the tables that Lark makes of the grammar take all its tokens, without any recovery, and every head
    stands on one line with the sign that follows it (parameters in parentheses may not)."""
    tables = load()
    scanned = scan(text, tables)
    if scanned.diagnostics:
        return False
    automaton = Automaton(tables, "file")
    if not all(automaton.take(token) for token in scanned.tokens):
        return False
    items = list(automaton.values[0])
    while items:
        item = items.pop()
        items += item.body or ()
        if item.head.parameters is None:
            after = re.match(r"(?:[ \t]|#[^\n]*)*[={]", text[item.head.span.stop :])
            if "\n" in text[item.head.span.start : item.head.span.stop] or after is None:
                return False
    return True


# ------------------------------------------------------------------------------------------------------- the faults

Maker = Callable[[Spec, random.Random], Fault | None]
MAKERS: dict[str, Maker] = {}


def maker(kind: str) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        MAKERS[kind] = make
        return make

    return register


def _one(spec: Spec, rng: random.Random, wanted: Callable[[Token], bool]) -> Token | None:
    found = [t for t in spec.tokens if wanted(t)]
    return rng.choice(found) if found else None


def _drops(kind: str, *signs: str) -> None:
    @maker(kind)
    def make(spec: Spec, rng: random.Random) -> Fault | None:
        token = _one(spec, rng, lambda t: str(t) in signs)
        return token and spec.edit(kind, token.start_pos, token.end_pos, "")


_drops("`{` left out", "{")
_drops("`}` left out", "}")
_drops("parenthesis left out", "(", ")")
_drops("square bracket left out", "[", "]")
_drops("`=` left out", "=")
_drops("`:` left out", ":")
_drops("`,` left out", ",")
_drops("`@` left out", "@")
_drops("operator left out", "+", "-", "*", "/", "^", "==", "<", ">", "<=", ">=")
_drops("word of the grammar left out", *WORDS)


@maker("quote left out")
def _quote(spec: Spec, rng: random.Random) -> Fault | None:
    token = _one(spec, rng, lambda t: t.type == "TEXT")
    if token is None:
        return None
    at = rng.choice([token.start_pos, token.end_pos - 1])
    return spec.edit("quote left out", at, at + 1, "")


@maker("other quotes")
def _quotes(spec: Spec, rng: random.Random) -> Fault | None:
    token = _one(spec, rng, lambda t: t.type == "TEXT" and "'" not in t)
    left, right = rng.choice(["''", "“”"])
    return token and spec.edit("other quotes", token.start_pos, token.end_pos, f"{left}{token[1:-1]}{right}")


@maker("word of the grammar misspelt")
def _misspelt(spec: Spec, rng: random.Random) -> Fault | None:
    token = _one(spec, rng, lambda t: str(t) in WORDS and len(t) > 2)
    return token and spec.edit("word of the grammar misspelt", token.start_pos, token.end_pos, slip(str(token), rng))


def slip(word: str, rng: random.Random) -> str:
    """One letter missing, doubled, or swapped with its neighbour."""
    at = rng.randrange(len(word) - 1)
    made = [word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]]
    if word[at] != word[at + 1]:
        made.append(word[:at] + word[at + 1] + word[at] + word[at + 2 :])
    return rng.choice(made)


@maker("bracket too many")
def _extra(spec: Spec, rng: random.Random) -> Fault | None:
    token = rng.choice(spec.tokens)
    return spec.edit("bracket too many", token.end_pos, token.end_pos, rng.choice("{}()[]"))


@maker("wrong bracket")
def _wrong(spec: Spec, rng: random.Random) -> Fault | None:
    token = _one(spec, rng, lambda t: str(t) in "{}()[]")
    other = {"{": "[(", "}": "])", "(": "[{", ")": "]}", "[": "({", "]": ")}"}
    return token and spec.edit("wrong bracket", token.start_pos, token.end_pos, rng.choice(other[str(token)]))


@maker("stray token")
def _stray(spec: Spec, rng: random.Random) -> Fault | None:
    token = rng.choice(spec.tokens)
    return spec.edit("stray token", token.end_pos, token.end_pos, " " + rng.choice(STRAY))


@maker("token twice")
def _twice(spec: Spec, rng: random.Random) -> Fault | None:
    token = rng.choice(spec.tokens)
    return spec.edit("token twice", token.end_pos, token.end_pos, f" {token}")


@maker("token left out")
def _left_out(spec: Spec, rng: random.Random) -> Fault | None:
    token = rng.choice(spec.tokens)
    return spec.edit("token left out", token.start_pos, token.end_pos, "")


@maker("neighbours swapped")
def _swapped(spec: Spec, rng: random.Random) -> Fault | None:
    at = rng.randrange(len(spec.tokens) - 1)
    one, two = spec.tokens[at : at + 2]
    if one.line != two.line:
        return None
    between = spec.text[one.end_pos : two.start_pos]
    return spec.edit("neighbours swapped", one.start_pos, two.end_pos, f"{two}{between}{one}")


@maker("lines swapped")
def _lines(spec: Spec, rng: random.Random) -> Fault | None:
    at = rng.randrange(len(spec.lines) - 1)
    start, stop = spec.starts[at], spec.starts[at] + len(spec.lines[at]) + len(spec.lines[at + 1])
    return spec.edit("lines swapped", start, stop, spec.lines[at + 1].rstrip("\n") + "\n" + spec.lines[at])


@maker("line left out")
def _line(spec: Spec, rng: random.Random) -> Fault | None:
    at = rng.randrange(len(spec.lines))
    return spec.edit("line left out", spec.starts[at], spec.starts[at] + len(spec.lines[at]), "")


@maker("value left out")
def _value(spec: Spec, rng: random.Random) -> Fault | None:
    """`lr = 3e-4` becomes `lr =`."""
    at = [i for i, t in enumerate(spec.tokens[:-1]) if str(t) == "=" and spec.tokens[i + 1].type in ("NUMBER", "NAME")]
    if not at:
        return None
    token = spec.tokens[rng.choice(at) + 1]
    return spec.edit("value left out", token.start_pos, token.end_pos, "")


@maker("`==` for `=` or `=` for `==`")
def _equal(spec: Spec, rng: random.Random) -> Fault | None:
    token = _one(spec, rng, lambda t: str(t) in ("=", "=="))
    other = {"=": rng.choice(["==", ":="]), "==": "="}
    return token and spec.edit("`==` for `=` or `=` for `==`", token.start_pos, token.end_pos, other[str(token)])


@maker("sign of another language")
def _foreign(spec: Spec, rng: random.Random) -> Fault | None:
    meant = {"and": "&&", "or": "||", "not": "!", "^": "**", "-": "–", "*": "×", "=": "->", "#": "//"}
    token = _one(spec, rng, lambda t: str(t) in meant)
    return token and spec.edit("sign of another language", token.start_pos, token.end_pos, meant[str(token)])


@maker("comment of another language")
def _comment(spec: Spec, rng: random.Random) -> Fault | None:
    at = rng.randrange(len(spec.lines))
    said = rng.choice(["// to be tuned\n", "/* to be tuned */\n", "-- to be tuned\n"])
    return spec.edit("comment of another language", spec.starts[at], spec.starts[at], said)


@maker("merge conflict")
def _conflict(spec: Spec, rng: random.Random) -> Fault | None:
    at = rng.randrange(len(spec.lines))
    stop = min(at + rng.randint(1, 3), len(spec.lines))
    if not spec.text.endswith("\n"):
        return None
    ours = "".join(spec.lines[at:stop])
    theirs = re.sub(r"[0-9]+", lambda m: str(int(m[0]) + 1), ours)
    start = spec.starts[at]
    return spec.edit(
        "merge conflict", start, start + len(ours), CONFLICT[0] + ours + CONFLICT[1] + theirs + CONFLICT[2]
    )


@maker("file cut off")
def _cut(spec: Spec, rng: random.Random) -> Fault | None:
    token = rng.choice(spec.tokens[len(spec.tokens) // 3 :])
    at = rng.choice([token.start_pos, token.end_pos, (token.start_pos + token.end_pos) // 2])
    fault = spec.edit("file cut off", at, len(spec.text), "")
    return Fault(fault.kind, fault.start, fault.stop, "", fault.first, len(spec.lines))


# ------------------------------------------------------------------------------------------------------- planting


def planted(text: str, faults: list[Fault]) -> str:
    for fault in sorted(faults, key=lambda f: -f.start):
        text = text[: fault.start] + fault.text + text[fault.stop :]
    return text


def draw(spec: Spec, rng: random.Random, kind: str, others: list[Fault], same_item: bool = False) -> Fault | None:
    """A fault of this kind that is one, apart from the others."""
    for _ in range(TRIES):
        fault = MAKERS[kind](spec, rng)
        if fault is None:
            continue
        apart = all(fault.first - o.last >= APART or o.first - fault.last >= APART for o in others)
        if not same_item and spec.item_of(fault.start) in {spec.item_of(o.start) for o in others}:
            continue
        if apart and not sound(planted(spec.text, [fault])):
            return fault
    return None


@dataclass(slots=True)
class Tally:
    files: int = 0
    equal: int = 0
    beyond: int = -99
    near: int = 0

    def add(self, faults: int, found: int, near: bool) -> None:
        self.files += 1
        self.equal += faults == found
        self.beyond = max(self.beyond, found - faults)
        self.near += near

    def row(self, name: str) -> str:
        share = f"{self.equal / self.files:.1%} | {self.near / self.files:.1%}"
        return f"| {name} | {self.files:,} | {share} | {self.beyond:+d} |"


def judge(text: str, faults: list[Fault]) -> tuple[int, bool, float]:
    """How many diagnostics, whether the first is near, and the processor's seconds."""
    began = time.process_time()
    source = Source("planted", text)
    _, found = parse(source)
    spent = time.process_time() - began
    if not found:
        return 0, False, spent
    line = min(source.position(d.span.start)[0] if d.span else 1 for d in found) - 1
    first = min(faults, key=lambda f: f.start)
    end = text.count("\n") if first.kind == "file cut off" else first.last
    if first.kind == "merge conflict":
        end = first.first + first.text.count("\n")
    return len(found), first.first - 1 <= line <= end + 1, spent


def specs() -> list[Spec]:
    """All of the repository's, the standard library included."""
    folders = [ROOT / "specs", ROOT / "examples", ROOT / "tests"]
    paths = sorted(p for folder in folders for p in folder.rglob("*.rlspec") if "corpus" not in p.parts)
    return [Spec(p) for p in paths if sound(p.read_text("utf-8")) and p.read_text("utf-8").count("\n") >= 12]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=2500)
    options.add_argument("--seconds", type=float, default=float("inf"), help="stop then, with fewer files")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--most", type=int, default=5, help="faults in one file")
    options.add_argument("--kind", help="only this kind of fault")
    options.add_argument("--same-item", action="store_true", help="two faults may stand in one formula")
    options.add_argument("--show", type=int, default=0, help="print so many of the misses")
    asked = options.parse_args()
    rng = random.Random(asked.seed)
    texts, kinds = specs(), [asked.kind] if asked.kind else list(MAKERS)
    by_kind: dict[str, Tally] = defaultdict(Tally)
    by_count: dict[int, Tally] = defaultdict(Tally)
    total, spent, shown, turn = Tally(), [], 0, 0
    end = time.monotonic() + asked.seconds
    while total.files < asked.files and time.monotonic() < end:
        spec, wanted, turn = rng.choice(texts), 1 + total.files % asked.most, turn + 1
        faults: list[Fault] = []
        for kind in [kinds[turn % len(kinds)]] if wanted == 1 else rng.choices(kinds, k=wanted):
            fault = draw(spec, rng, kind, faults, asked.same_item)
            if fault is not None:
                faults.append(fault)
        if len(faults) < wanted:
            continue
        text = planted(spec.text, faults)
        found, near, seconds = judge(text, faults)
        spent.append(seconds)
        for tally in (total, by_count[wanted], *([by_kind[faults[0].kind]] if wanted == 1 else [])):
            tally.add(wanted, found, near)
        if shown < asked.show and (found != wanted or not near):
            shown += 1
            show(spec, text, faults)
    print("| faults | files | reported = planted | first within one line | most beyond |\n|---|---|---|---|---|")
    for kind in kinds:
        if by_kind[kind].files:
            print(by_kind[kind].row(kind))
    for count in sorted(by_count):
        print(by_count[count].row(f"{count} in a file, of any kind" if count > 1 else "1 in a file"))
    print(total.row("**all**"))
    print(f"\n{len(texts)} specs; parsing took {1000 * statistics.median(spent):.0f} ms in the middle, "
          f"{1000 * max(spent):.0f} ms at most (processor time)")  # fmt: skip
    good = total.equal >= 0.9 * total.files and total.beyond <= 1 and total.near >= 0.95 * total.files
    return 0 if good else 1


def show(spec: Spec, text: str, faults: list[Fault]) -> None:
    print("=" * 100 + f"\n{spec.path.name}: " + "; ".join(f"{f.kind} on line {f.first + 1}" for f in faults))
    lines = spec.text.splitlines()
    for fault in sorted(faults, key=lambda f: f.start):
        print(f"  {fault.first + 1}: {lines[min(fault.first, len(lines) - 1)]}   -> {fault.text!r} for "
              f"{spec.text[fault.start : fault.stop][:60]!r}")  # fmt: skip
    source = Source("planted", text)
    for diagnostic in parse(source)[1]:
        print(render(diagnostic, source))


if __name__ == "__main__":
    sys.exit(main())
