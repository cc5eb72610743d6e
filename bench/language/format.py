"""How often the formatter fails on generated files: `python bench/language/format.py --files 10000`.

Each file is a random program of the grammar in a random layout: neat, wild (any blanks, breaks and comments wherever
they may stand), or flat (as few blanks as possible). Of each, the following is asked, by code that shares nothing with
the formatter's own check: is a second pass a no-op; is the tree the same; do the same comments stand between the same
tokens; is anything left that no line may have (blanks at its end, two blank lines, tabs between tokens).
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from rlspec.dsl.diagnostics import Source
from rlspec.dsl.format import formatted
from rlspec.dsl.parser import parse
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import scan

NAMES = ["a", "b", "R", "outcome", "verdict", "turns", "std", "env", "max_turns_per_task", "lr", "on", "k3", "x_1"]
KINDS = ["reward", "signal", "env", "stage", "param", "let", "advantage", "user", "variant", "claims", "mix"]
NUMBERS = ["0", "1", "10", "0.5", "1e-6", "32_768tokens", "30agent_turns", "57.4%", "6.1pp", "20s", "4E+2"]
WORDS = ["as", "published", "table 3", "code:", "#", "{", "}", "= 1", "\\n", '\\"', "…", "\\u{1F600}"]
REMARKS = ["#", "# why", "#tight", "# x = { 1", '# "open', "#   spaced   ", "# ----", "#\ttab", "# …", "## two"]


class Program:
    """A random file as a list of (gap, token): the gap says what may stand before the token."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.out: list[tuple[str, str]] = []

    def file(self) -> list[tuple[str, str]]:
        self.items(3, self.dice.randint(1, 6))
        return self.out

    def add(self, gap: str, *tokens: str) -> None:
        self.out += [(gap, token) for token in tokens]

    def items(self, depth: int, count: int) -> None:
        for _ in range(count):
            self.item(depth)

    def item(self, depth: int) -> None:
        dice = self.dice
        self.add("item", dice.choice(KINDS + NAMES))
        for _ in range(dice.choice([0, 0, 0, 1])):
            self.add("head", ".", dice.choice(NAMES))
        for _ in range(dice.choice([0, 1, 1, 2])):
            self.add("head", self.text(6) if dice.random() < 0.1 else dice.choice(NAMES[:-3]))
        if dice.random() < 0.07:
            self.add("head", "(")
            for index in range(dice.randint(0, 3)):
                self.add("in", *([","] if index else []), dice.choice(NAMES), ":")
                self.type("in")
                if dice.random() < 0.3:
                    self.add("in", "=")
                    self.expression(1)
            self.add("in", ")")
        if dice.random() < 0.4:
            self.add("head", ":")
            self.type("head")
        if dice.random() < 0.05:
            self.add("head", "extends", "base", ".", "R")
        if dice.random() < 0.1:
            self.add("head", "on", "desk")
        if depth and dice.random() < 0.35:
            self.add("open", "{")
            self.items(depth - 1, dice.choice([0, 1, 2, 3, 5]))
            self.add("close", "}")
        else:
            self.add("equal", "=")
            self.expression(dice.choice([0, 0, 1, 2, 3]))

    def type(self, gap: str) -> None:
        dice = self.dice
        if dice.random() < 0.2:
            self.add(gap, "{")
            self.add("in", "gold", ",", "soft", "}")
        else:
            self.add(gap, dice.choice(["real", "int", "shop"]))
        if dice.random() < 0.5:
            self.add(gap, "@", dice.choice(["traj", "turn"]))
        if dice.random() < 0.3:
            self.add(gap, "in", "[")
            self.add("in", "-", "1", ",", "1", "]")

    def text(self, most: int) -> str:
        return '"' + " ".join(self.dice.choices(WORDS, k=self.dice.randint(0, most))) + '"'

    def atom(self) -> None:
        dice, which = self.dice, self.dice.random()
        if which < 0.45:
            self.add("in", dice.choice(NAMES))
        elif which < 0.8:
            self.add("in", dice.choice(NUMBERS))
        elif which < 0.95:
            self.add("in", self.text(30 if dice.random() < 0.1 else 4))
        else:
            self.add("in", dice.choice(["true", "false"]))

    def operand(self, depth: int) -> None:
        """An expression that may stand on either side of any operator."""
        if depth <= 0:
            self.atom()
            return
        which = self.dice.choice(["atom", "(", "call", "call", "list", "set", "index", "member"])
        if which == "atom":
            self.atom()
        elif which == "(":
            self.add("in", "(")
            self.expression(depth - 1)
            self.add("in", ")")
        elif which == "call":
            self.add("in", self.dice.choice(NAMES), "(")
            self.several(depth - 1, self.argument)
            self.add("in", ")")
        elif which in ("list", "set"):
            self.add("in", "[" if which == "list" else "{")
            self.several(depth - 1, self.expression)
            self.add("in", "]" if which == "list" else "}")
        elif which == "index":
            self.operand(depth - 1)
            self.add("in", "[")
            self.expression(depth - 1)
            self.add("in", "]")
        else:
            self.operand(depth - 1)
            self.add("in", ".", self.dice.choice(NAMES))

    def several(self, depth: int, one: object) -> None:
        count = self.dice.choice([0, 1, 1, 2, 3, 12] if depth < 1 else [0, 1, 2, 3])
        for index in range(count):
            if index:
                self.add("in", ",")
            one(depth)  # type: ignore[operator]
        if count and self.dice.random() < 0.15:
            self.add("in", ",")

    def argument(self, depth: int) -> None:
        which = self.dice.random()
        if which < 0.3:
            self.add("in", self.dice.choice([*NAMES, "where", "over"]), "=")
        self.expression(depth)
        if which > 0.75:
            self.add("in", "over", *self.dice.choice([["turn"], ["(", "traj", ",", "turn", ")"]]))
            if which > 0.85:
                self.add("in", "align", "turn")
            if which > 0.9:
                self.add("in", "where")
                self.operand(depth)

    def expression(self, depth: int) -> None:
        dice = self.dice
        which = dice.random()
        if depth <= 0 or which < 0.3:
            if dice.random() < 0.15:
                self.add("in", "-")
            self.operand(depth)
        elif which < 0.65:
            for index in range(dice.choice([2, 2, 3, 5])):
                if index:
                    self.add("in", dice.choice("+-*/^"))
                    if dice.random() < 0.1:
                        self.add("in", "-")
                self.operand(depth - 1)
        elif which < 0.8:
            if dice.random() < 0.2:
                self.add("in", "not")
            self.operand(depth - 1)
            self.add("in", *dice.choice([["=="], ["<="], ["in"], ["not", "in"], ["and"], ["or"]]))
            self.operand(depth - 1)
        elif which < 0.88:
            self.add("in", "if")
            self.operand(depth - 1)
            self.add("in", "then")
            self.operand(depth - 1)
            self.add("in", "else")
            self.operand(depth - 1)
        else:
            self.operand(depth)


class Layout:
    """Writes a program's tokens with random blanks, breaks and comments where they are allowed."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.style = dice.choice(["neat", "neat", "wild", "flat"])
        self.remarks = dice.choice([0, 0.02, 0.15])
        self.breaks = dice.choice([0, 0.01, 0.1])
        self.column = dice.choice([0, 12, 20])
        self.beside = dice.choice([0, 0, 60])
        self.depth = 0

    def write(self, tokens: list[tuple[str, str]]) -> str:
        text = self.dice.choice(["", "", "\n", "\n\n", "# first\n", "  # first\n\n\n"])
        for gap, token in tokens:
            if gap == "close":
                self.depth -= 1
            blank = self.gap(gap, text)
            if not blank and re.search(r"\w\Z", text) and re.match(r"\w", token):
                blank = " "
            text += blank + token
            if gap == "open":
                self.depth += 1
        text += self.dice.choice(["", "\n", "\n\n", " # end", "\n# end\n", "\n\n  # end\n\n"])
        if self.dice.random() < 0.05:
            text = text.replace("\n", "\r\n")
        return text

    def gap(self, gap: str, text: str) -> str:
        dice = self.dice
        if gap == "head":
            return "" if self.style == "flat" else dice.choice(["", " ", " ", "  "])
        if dice.random() < self.remarks:
            return self.remark(text)
        if self.style == "wild":
            return dice.choice(["", " ", " ", "  ", "\t", "\n", "\n\n", "\r\n   ", "\f", "\n\n\n \n      "])
        if self.style == "flat":
            return ""
        line = len(text) - text.rfind("\n") - 1
        indent = "  " * self.depth
        if gap == "item" or gap == "close":
            return dice.choice(["\n", "\n", "\n", "\n\n", "\n\n\n", "  ", " "]) + dice.choice([indent, indent, ""])
        if gap == "equal" and self.column:
            return " " * max(1, self.column - line)
        if dice.random() < self.breaks:
            return "\n" + indent + " " * dice.choice([0, 2, 4])
        return dice.choice(["", " ", " ", " "]) if gap == "in" else " "

    def remark(self, text: str) -> str:
        dice = self.dice
        line = len(text) - text.rfind("\n") - 1
        out = " " * max(0, self.beside - line) if self.beside and dice.random() < 0.7 else ""
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            out += dice.choice(["", " ", "  ", "\n", "\n  ", "\n\n"]) + dice.choice(REMARKS) + "\n"
        return out + dice.choice(["", "  " * self.depth, "\n"])


def generated(dice: random.Random) -> str:
    """A random file without syntax errors."""
    return Layout(dice).write(Program(dice).file())


def words(text: str) -> list[str]:
    """All tokens and comments, in their order."""
    found = scan(text, load())
    placed = [(token.start, token.text) for token in found.tokens]
    placed += [(comment.span.start, comment.text) for comment in found.comments]
    return [word for _, word in sorted(placed)]


def shape(text: str) -> str:
    """The tree as text, without spans."""
    file, diagnostics = parse(Source("generated", text))
    if diagnostics:
        raise ValueError(f"{diagnostics[0].code}: {diagnostics[0].message}")
    return re.sub(r"(?:, )?span=Span\(start=\d+, stop=\d+\)", "", repr(file.items))


def faults(text: str) -> list[str]:
    """What the formatter does wrong on a file.

    Raises:
        ValueError: the file has syntax errors, so nothing is asked of the formatter.
    """
    before = shape(text)
    try:
        out = formatted(Source("generated", text))
        found = [] if formatted(Source("generated", out)) == out else ["not idempotent"]
        found += [] if shape(out) == before else ["another tree"]
    except Exception as error:  # whatever it is, the formatter failed on a sound file
        return [f"{type(error).__name__}: {error}"]
    if words(out) != words(text):
        found.append("comments or tokens in another order")
    lines = out.replace("\r\n", "\n").split("\n")
    if any(line != line.rstrip() or line.lstrip(" ")[:1] == "\t" for line in lines):
        found.append("stray blanks")
    if "\n\n\n" in out.replace("\r\n", "\n") or (out and not out.endswith("\n")) or out.startswith("\n"):
        found.append("stray lines")
    return found


def _time(spec: Path) -> None:
    """Print how long at least 200 lines take in this process, beside parsing them."""
    text = spec.read_text()
    copies = -(-200 // text.count("\n"))
    crooked = Source("long", text.replace(" = ", "  =  ") * copies)
    straight = Source("long", formatted(crooked))
    fresh = itertools.count()  # the parser keeps the trees of files that it has seen
    for what, action in (
        ("parse", lambda: parse(Source(f"long {next(fresh)}", crooked.text))),
        ("format, to be changed", lambda: formatted(crooked)),
        ("format, already formatted", lambda: formatted(straight)),
    ):
        times = []
        for _ in range(11):
            begun = time.process_time()
            action()
            times.append(time.process_time() - begun)
        lines = crooked.text.count("\n")
        print(f"{lines} lines, CPU median of 11: {what}: {1000 * sorted(times)[5]:.0f} ms")


def main() -> None:
    """Generate, format, count; status 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed: Counter[str] = Counter()
    unsound = lines = comments = 0
    for index in range(options.files):
        text = generated(random.Random(f"{options.seed}/{index}"))
        lines += text.count("\n")
        comments += len(scan(text, load()).comments)
        try:
            found = faults(text)
        except ValueError as error:
            unsound += 1
            print(f"file {index} is not sound: {error}")
            continue
        failed.update(found)
        if found:
            Path(f"failed-{options.seed}-{index}.rlspec").write_bytes(text.encode())
            print(f"file {index}: {'; '.join(found)}")
    print(
        f"{options.files - unsound:,} generated files, {lines:,} lines, {comments:,} comments; "
        f"failures: {sum(failed.values())} {dict(failed) if failed else ''}".rstrip()
    )
    _time(Path(__file__).parents[2] / "specs" / "papers" / "tarl.rlspec")
    sys.exit(1 if failed or unsound else 0)


if __name__ == "__main__":
    main()
