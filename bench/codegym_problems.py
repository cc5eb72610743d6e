"""Writes the shipped coding problems: python bench/codegym_problems.py > specs/codegym/problems.jsonl
The same problems with short inputs: python bench/codegym_problems.py short > specs/codegym/short.jsonl

Eleven families over one box of small functions. A family is a way to steer (fold, count, keep a stack, walk, transfer,
sort ...); its problems differ in the functions that they steer with. The last three families are meant to be held out:
they use functions that the others have taught, in ways that the others have not.

Inputs are drawn from a stream named by the problem, so the file is the same on every machine. No answer is that of more
than 8 of a problem's 30 configurations, so whoever submits without looking is nearly always wrong.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rlspec.runtime.streams import stream

TESTS = 10


@dataclass(frozen=True)
class Sizes:
    """How many numbers an input has at each level, configurations per level, and how many of a problem's
    configurations may have the same answer."""

    levels: dict[str, tuple[int, int]]
    configurations: int
    alike: int


SHIPPED = Sizes({"easy": (3, 4), "medium": (5, 6), "hard": (7, 8)}, 10, 8)
SHORT = Sizes({"easy": (2, 3), "medium": (2, 3), "hard": (3, 3)}, 20, 30)

Draw = Callable[[Any, int], dict[str, Any]]

BOX = {
    "add": ("a: int, b: int", "int", "Add two numbers.", "return a + b"),
    "multiply": ("a: int, b: int", "int", "Multiply two numbers.", "return a * b"),
    "difference": ("a: int, b: int", "int", "How far two numbers are apart.", "return abs(a - b)"),
    "bigger": ("a: int, b: int", "int", "The bigger of two numbers.", "return max(a, b)"),
    "smaller": ("a: int, b: int", "int", "The smaller of two numbers.", "return min(a, b)"),
    "increase": ("x: int", "int", "One more than a number.", "return x + 1"),
    "double": ("x: int", "int", "Twice a number.", "return 2 * x"),
    "triple": ("x: int", "int", "Three times a number.", "return 3 * x"),
    "square": ("x: int", "int", "A number times itself.", "return x * x"),
    "halve": ("x: int", "int", "Half of a number, rounded down.", "return x // 2"),
    "last_digit": ("x: int", "int", "The last digit of a number.", "return x % 10"),
    "is_even": ("x: int", "bool", "Whether a number is even.", "return x % 2 == 0"),
    "is_odd": ("x: int", "bool", "Whether a number is odd.", "return x % 2 == 1"),
    "is_big": ("x: int", "bool", "Whether a number is more than five.", "return x > 5"),
    "is_small": ("x: int", "bool", "Whether a number is less than five.", "return x < 5"),
    "push": ("stack: list[int], x: int", "None", "Put a number on the stack.", "stack.append(x)"),
    "pop": ("stack: list[int]", "int", "Take the top number off the stack.", "return stack.pop()"),
    "top": ("stack: list[int]", "int", "The top number of the stack.", "return stack[-1]"),
    "size": ("stack: list[int]", "int", "How many numbers are on the stack.", "return len(stack)"),
    "walk": ("place: list[int], way: str, steps: int", "None", "Walk some steps in a direction.",
             "east, north = {'north': (0, 1), 'south': (0, -1), 'east': (1, 0), 'west': (-1, 0)}[way]\n"
             "    place[0] += east * steps\n    place[1] += north * steps"),
    "bounce": ("place: list[int]", "None", "Mirror the place at the start.",
               "place[0], place[1] = -place[0], -place[1]"),
    "distance": ("place: list[int]", "int", "Steps from the start to the place.",
                 "return abs(place[0]) + abs(place[1])"),
    "enough": ("balances: list[int], who: int, amount: int", "bool", "Whether an account holds an amount.",
               "return balances[who] >= amount"),
    "pay": ("balances: list[int], who: int, whom: int, amount: int", "None", "Move an amount between two accounts.",
            "balances[who] -= amount\n    balances[whom] += amount"),
    "balance": ("balances: list[int], who: int", "int", "What an account holds.", "return balances[who]"),
    "out_of_order": ("numbers: list[int], index: int", "bool", "Whether the next number is smaller.",
                     "return numbers[index] > numbers[index + 1]"),
    "swap": ("numbers: list[int], index: int", "None", "Exchange a number and the next one.",
             "numbers[index], numbers[index + 1] = numbers[index + 1], numbers[index]"),
}  # fmt: skip
ARGUMENT = {"a": "first number", "b": "second number", "x": "the number", "way": "north, south, east or west",
            "steps": "how many steps", "who": "account, counted from 0", "whom": "the account that gets it",
            "amount": "the amount", "index": "place of the number, counted from 0"}  # fmt: skip
INPUT = {"numbers": "list[int]", "left": "list[int]", "right": "list[int]", "ways": "list[str]",
         "balances": "list[int]", "payers": "list[int]", "takers": "list[int]", "amounts": "list[int]"}  # fmt: skip

WORDS = {
    "double": "twice each number", "triple": "three times each number", "square": "the square of each number",
    "halve": "half of each number", "increase": "one more than each number",
    "last_digit": "the last digit of each number",
    "is_even": "even", "is_odd": "odd", "is_big": "big", "is_small": "small",
}  # fmt: skip


def solution(uses: list[str], inputs: list[str], body: str) -> str:
    """The text of a solution: the functions that it uses, and `solve`."""
    parts = []
    for name in dict.fromkeys(uses):
        parameters, returns, doc, code = BOX[name]
        told = [p.split(":")[0] for p in parameters.split(", ")]
        lines = "\n".join(f"        {p}: {ARGUMENT[p]}" for p in told if p in ARGUMENT)
        full = f'"""{doc}' + (f'\n\n    Args:\n{lines}\n    """' if lines else '"""')
        parts.append(f"def {name}({parameters}) -> {returns}:\n    {full}\n    {code}\n")
    given = ", ".join(f"{name}: {INPUT[name]}" for name in inputs)
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    parts.append(f'def solve({given}) -> int:\n    """Solve the task."""\n{indented}\n')
    return "\n\n".join(parts)


def numbers(low: int, high: int) -> Draw:
    """Inputs of one list."""
    return lambda rng, n: {"numbers": rng.integers(low, high + 1, size=n).tolist()}


@dataclass(frozen=True)
class Sketch:
    """A problem whose inputs are not drawn yet."""

    family: str
    name: str
    statement: str
    text: str
    draw: Draw


def problem(family: str, name: str, statement: str, text: str, draw: Draw) -> Sketch:
    """A problem."""
    return Sketch(family, name, statement, text, draw)


def whole(sketch: Sketch, sizes: Sizes) -> dict[str, Any]:
    """A problem with its tests and configurations."""
    family, text, draw = sketch.family, sketch.text, sketch.draw
    identity = f"{family}.{sketch.name}"
    rng = stream(0, "codegym", identity)
    space: dict[str, Any] = {}
    exec(text, space)
    seen: set[str] = set()
    answers: Counter[int] = Counter()

    def fresh(n: int, most: int) -> tuple[dict[str, Any], int]:
        for _ in range(5_000):
            given = draw(rng, n)
            answer = space["solve"](**json.loads(json.dumps(given)))
            if json.dumps(given) not in seen and answers[answer] < most:
                seen.add(json.dumps(given))
                return given, answer
        raise RuntimeError(f"{identity}: its answers are too much alike")

    configurations = []
    for level, (low, high) in sizes.levels.items():
        for _ in range(sizes.configurations):
            given, answer = fresh(int(rng.integers(low, high + 1)), sizes.alike)
            answers[answer] += 1
            configurations.append({"level": level, "input": given})
    tests = [{"input": given, "output": answer} for given, answer in (fresh(3 + k % 4, 1_000) for k in range(TESTS))]
    return {"id": identity, "family": family, "statement": sketch.statement, "solution": text, "tests": tests,
            "configurations": configurations}  # fmt: skip


def total() -> Iterator[Sketch]:
    for f in ("double", "triple", "square", "halve", "increase", "last_digit"):
        body = f"total = 0\nfor x in numbers:\n    total = add(total, {f}(x))\nreturn total"
        high = {"square": 6, "halve": 19, "last_digit": 29}.get(f, 9)
        yield problem("total", f, f"add up {WORDS[f]} .", solution([f, "add"], ["numbers"], body), numbers(1, high))
    for p in ("is_even", "is_odd", "is_big", "is_small"):
        body = f"total = 0\nfor x in numbers:\n    if {p}(x):\n        total = add(total, x)\nreturn total"
        text = solution([p, "add"], ["numbers"], body)
        yield problem("total", p, f"add up the {WORDS[p]} numbers .", text, numbers(1, 9))


def extreme() -> Iterator[Sketch]:
    for best, word in (("bigger", "biggest"), ("smaller", "smallest")):
        for f in ("double", "triple", "square", "last_digit", "halve"):
            start = "0" if best == "bigger" else "99"
            body = f"best = {start}\nfor x in numbers:\n    best = {best}(best, {f}(x))\nreturn best"
            text = solution([f, best], ["numbers"], body)
            statement = f"find the {word} of {WORDS[f]} . start with {start} ."
            yield problem("extreme", f"{word}_{f}", statement, text, numbers(1, 29 if f == "last_digit" else 19))


def count() -> Iterator[Sketch]:
    for p in ("is_even", "is_odd", "is_big", "is_small"):
        body = f"found = 0\nfor x in numbers:\n    if {p}(x):\n        found = increase(found)\nreturn found"
        text = solution([p, "increase"], ["numbers"], body)
        yield problem("count", p, f"count the {WORDS[p]} numbers .", text, numbers(1, 9))
    for f, p in (("halve", "is_even"), ("halve", "is_odd"), ("last_digit", "is_big"), ("last_digit", "is_small")):
        body = f"found = 0\nfor x in numbers:\n    if {p}({f}(x)):\n        found = increase(found)\nreturn found"
        text = solution([f, p, "increase"], ["numbers"], body)
        statement = f"take {WORDS[f]} . count the {WORDS[p]} ones ."
        yield problem("count", f"{f}_{p}", statement, text, numbers(1, 29))


def pairs() -> Iterator[Sketch]:
    names = {"multiply": "products", "difference": "differences", "bigger": "bigger ones", "smaller": "smaller ones"}

    def draw(high: int) -> Draw:
        return lambda rng, n: {
            "left": rng.integers(1, high + 1, size=max(2, n - 1)).tolist(),
            "right": rng.integers(1, high + 1, size=max(2, n - 1)).tolist(),
        }

    for op, word in names.items():
        for fold, verb in (("add", "add up"), ("bigger", "find the biggest of")):
            body = (
                f"best = 0\nfor i in range(len(left)):\n    best = {fold}(best, {op}(left[i], right[i]))\nreturn best"
            )
            text = solution([op, fold], ["left", "right"], body)
            statement = f"{verb} the {word} of left and right ."
            yield problem("pairs", f"{op}_{fold}", statement, text, draw(5 if op == "multiply" else 19))


def stack() -> Iterator[Sketch]:
    folds = {
        "add": ("push(stack, add(pop(stack), pop(stack)))", "add the two top numbers"),
        "bigger": ("push(stack, bigger(pop(stack), pop(stack)))", "keep the bigger of the two top numbers"),
        "difference": ("push(stack, difference(pop(stack), pop(stack)))", "take the difference of the two top numbers"),
        "double": ("push(stack, double(pop(stack)))", "double the top number"),
        "increase": ("push(stack, increase(pop(stack)))", "increase the top number"),
        "halve": ("push(stack, halve(pop(stack)))", "halve the top number"),
        "square": ("push(stack, square(pop(stack)))", "square the top number"),
        "pop": ("pop(stack)", "drop the top number"),
    }

    def draw(two: bool) -> Draw:
        def given(rng: Any, n: int) -> dict[str, Any]:
            out: list[int] = []
            held = 0
            for _ in range(n):
                zero = held > (1 if two else 0) and rng.random() < 0.4
                held += (-1 if two else 0) if zero else 1
                out.append(0 if zero else int(rng.integers(1, 10)))
            return {"numbers": out}

        return given

    for name, (act, words) in folds.items():
        two = name in ("add", "bigger", "difference", "pop")
        body = (
            "stack: list[int] = []\nfor x in numbers:\n    if x == 0:\n"
            f"        {act}\n    else:\n        push(stack, x)\nreturn top(stack)"
        )
        uses = [name, "push", "pop", "top"]
        statement = f"push each number . at 0 {words} instead . give the top number ."
        yield problem("stack", name, statement, solution(uses, ["numbers"], body), draw(two))


def walk() -> Iterator[Sketch]:
    def draw(rng: Any, n: int) -> dict[str, Any]:
        given = [("north", "south", "east", "west")[int(k)] for k in rng.integers(0, 4, size=n)]
        return {"ways": given, "numbers": rng.integers(1, 10, size=n).tolist()}

    ends = {
        "plain": ("numbers[i]", "", "each number of steps", []),
        "double": ("double(numbers[i])", "", "twice each number of steps", ["double"]),
        "halve": ("halve(numbers[i])", "", "half of each number of steps", ["halve"]),
        "square": ("square(numbers[i])", "", "the square of each number of steps", ["square"]),
        "triple": ("triple(numbers[i])", "", "three times each number of steps", ["triple"]),
        "increase": ("increase(numbers[i])", "", "one more than each number of steps", ["increase"]),
        "bounce": ("numbers[i]", "    bounce(place)\n", "each number of steps and bounce after each", ["bounce"]),
        "farthest": ("numbers[i]", "    best = bigger(best, distance(place))\n", "each number of steps", ["bigger"]),
    }
    for name, (steps, after, words, uses) in ends.items():
        far = name == "farthest"
        body = (
            "place: list[int] = [0, 0]\n" + ("best = 0\n" if far else "") + "for i in range(len(ways)):\n"
            f"    walk(place, ways[i], {steps})\n{after}return {'best' if far else 'distance(place)'}"
        )
        ending = "give the biggest distance on the way" if far else "give the distance"
        text = solution(["walk", *uses, "distance"], ["ways", "numbers"], body)
        yield problem("walk", name, f"walk each way , {words} . {ending} .", text, draw)


def bank() -> Iterator[Sketch]:
    def draw(rng: Any, n: int) -> dict[str, Any]:
        accounts, transfers = 3, max(2, n - 2)
        return {
            "balances": rng.integers(3, 20, size=accounts).tolist(),
            "payers": rng.integers(0, accounts, size=transfers).tolist(),
            "takers": rng.integers(0, accounts, size=transfers).tolist(),
            "amounts": rng.integers(1, 13, size=transfers).tolist(),
        }

    changes = {"plain": "amounts[i]", "double": "double(amounts[i])", "halve": "halve(amounts[i])",
               "increase": "increase(amounts[i])"}  # fmt: skip
    ends = {
        "first": ("return balance(balances, 0)", "give the balance of account 0", ["balance"]),
        "best": ("return bigger(balance(balances, 1), balance(balances, 2))",
                 "give the bigger balance of accounts 1 and 2", ["balance", "bigger"]),
    }  # fmt: skip
    for change, amount in changes.items():
        for end, (last, words, uses) in ends.items():
            more = [change] if change != "plain" else []
            body = (
                f"for i in range(len(payers)):\n    amount = {amount}\n"
                "    if enough(balances, payers[i], amount):\n"
                f"        pay(balances, payers[i], takers[i], amount)\n{last}"
            )
            said = {"plain": "each amount", "double": "twice each amount", "halve": "half of each amount",
                    "increase": "one more than each amount"}[change]  # fmt: skip
            statement = f"payers pay takers {said} , where there is enough . {words} ."
            text = solution([*more, "enough", "pay", *uses], ["balances", "payers", "takers", "amounts"], body)
            yield problem("bank", f"{change}_{end}", statement, text, draw)


def sort() -> Iterator[Sketch]:
    ends = {
        "first": ("numbers[0]", [], "the first number"),
        "second": ("numbers[1]", [], "the second number"),
        "third": ("numbers[2]", [], "the third number"),
        "sum": ("add(numbers[0], numbers[1])", ["add"], "the sum of the first two"),
        "product": ("multiply(numbers[0], numbers[1])", ["multiply"], "the product of the first two"),
        "gap": ("difference(numbers[0], numbers[1])", ["difference"], "the difference of the first two"),
        "double": ("double(numbers[2])", ["double"], "twice the third number"),
        "bigger": ("bigger(numbers[0], numbers[2])", ["bigger"], "the bigger of the first and third"),
    }
    for name, (last, uses, words) in ends.items():
        body = (
            "for again in range(2):\n    for i in range(len(numbers) - 1):\n        if out_of_order(numbers, i):\n"
            f"            swap(numbers, i)\nreturn {last}"
        )
        text = solution(["out_of_order", "swap", *uses], ["numbers"], body)
        statement = f"go through the numbers twice and swap what is out of order . give {words} ."
        yield problem("sort", name, statement, text, numbers(1, 29))


def product() -> Iterator[Sketch]:
    """Held out: folds as in `total` and `extreme`, by multiplication."""

    def odd(rng: Any, n: int) -> dict[str, Any]:
        return {"numbers": (1 + 2 * rng.integers(1, 9, size=n)).tolist()}

    for f in ("increase", "double", "halve", "last_digit"):
        body = f"total = 1\nfor x in numbers:\n    total = last_digit(multiply(total, {f}(x)))\nreturn total"
        text = solution([f, "multiply", "last_digit"], ["numbers"], body)
        statement = f"multiply {WORDS[f]} . keep only the last digit each time . start with 1 ."
        yield problem("product", f, statement, text, odd)
    for f in ("double", "square", "triple"):
        body = f"best = 0\nfor x in numbers:\n    best = difference(best, {f}(x))\nreturn best"
        text = solution([f, "difference"], ["numbers"], body)
        yield problem("product", f"apart_{f}", f"take the difference to {WORDS[f]} in turn .", text, numbers(1, 9))


def search() -> Iterator[Sketch]:
    """Held out: stops early, and gives what it has seen until then."""
    for f, p in (("double", "is_big"), ("halve", "is_big"), ("last_digit", "is_odd"), ("triple", "is_even"),
                 ("increase", "is_small"), ("square", "is_big")):  # fmt: skip
        body = f"total = 0\nfor x in numbers:\n    if {p}({f}(x)):\n        return total\n"
        body += "    total = add(total, x)\nreturn total"
        text = solution([f, p, "add"], ["numbers"], body)
        statement = f"take {WORDS[f]} . add up the numbers before the first one that is {WORDS[p]} ."
        early = {"is_big": (1, 4), "is_odd": (10, 29), "is_even": (1, 9), "is_small": (3, 9)}[p]

        def draw(rng: Any, n: int, p: str = p, early: tuple[int, int] = early) -> dict[str, Any]:
            given = rng.integers(early[0], early[1] + 1, size=n)
            if p in ("is_odd", "is_even"):
                given[:2] = 2 * (given[:2] // 2) + (1 if p == "is_even" else 0)
            return {"numbers": given.tolist()}

        yield problem("search", f"{f}_{p}", statement, text, draw)


def gap() -> Iterator[Sketch]:
    """Held out: neighbours of one list, as `pairs` has them of two."""
    for op in ("difference", "multiply", "bigger", "smaller"):
        for fold, verb in (("add", "add up"), ("bigger", "find the biggest of")):
            names = {"multiply": "products", "difference": "differences", "bigger": "bigger ones",
                     "smaller": "smaller ones"}  # fmt: skip
            body = (
                "best = 0\nfor i in range(len(numbers) - 1):\n"
                f"    best = {fold}(best, {op}(numbers[i], numbers[i + 1]))\nreturn best"
            )
            text = solution([op, fold], ["numbers"], body)
            yield problem("gap", f"{op}_{fold}", f"{verb} the {names[op]} of neighbours .", text,
                          numbers(1, 5 if op == "multiply" else 19))  # fmt: skip


FAMILIES = (total, extreme, count, pairs, stack, walk, bank, sort, product, search, gap)
HELD_OUT = ("product", "search", "gap")
WITHOUT_STATE = (total, extreme, count, pairs, product, gap)  # those of which two numbers are enough


def text(sizes: Sizes = SHIPPED) -> str:
    """The file."""
    families = FAMILIES if sizes is SHIPPED else WITHOUT_STATE
    problems = (whole(sketch, sizes) for family in families for sketch in family())
    return "".join(json.dumps(p, separators=(",", ":")) + "\n" for p in problems)


if __name__ == "__main__":
    print(text(SHORT if sys.argv[1:] == ["short"] else SHIPPED), end="")
