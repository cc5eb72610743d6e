"""How often the leak check rejects feedback that gives nothing away, and how often it finds what is spelt otherwise.

    .venv/bin/python bench/leaks.py [--tasks 2000]

Honest sentences, and every wording of the rule, against the gold calls of the embedded shop's tasks; a rejected one
counts where none of the task's values is meant. Then the task's order number, spelt in other ways.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict

from rlspec.compiler.catalog.resampling import Feedback
from rlspec.compiler.catalog.shop import Shop
from rlspec.runtime.worlds.leaks import leaked, scalars
from rlspec.runtime.worlds.protocol import Call
from rlspec.runtime.worlds.shop import make_world

HONEST = """error : the call is malformed
error : the order is the wrong one
error : you did not ask before you wrote
error : one of the arguments is wrong , look at the order again
error : the first call was right , the second one was not
error : two items were changed where one was wanted
error : the item that was exchanged is not the one that the user meant
error : the user changed their mind , ask once more
error : i cannot do this before the user has said yes
error : the address was given to the wrong customer
error : this order has been delivered , so it cannot be modified
error : the colour is not what was asked for
error : something is left to do
error : the name is not that of the customer
error : you mixed up two orders
error : the city is missing
error : an argument too many was given
error : there is a third thing that the user wants
error : you ended before you had done all three things
error : check the id of the order before you write
error : you did make a mild mix of two orders
error : i see that you and i differ , six of the calls are fine
error : x , v and d are no arguments of this tool""".splitlines()

UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ROMAN_UNITS = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]
ROMAN_TENS = ["", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC"]


def words(number: int) -> str:
    """A number below ten thousand in words."""
    if number < 20:
        return UNITS[number]
    for scale, name in ((1000, "thousand"), (100, "hundred")):
        if number >= scale:
            rest = f" and {words(number % scale)}" if number % scale else ""
            return f"{words(number // scale)} {name}{rest}"
    return TENS[number // 10] + (f" {UNITS[number % 10]}" if number % 10 else "")


def roman(number: int) -> str:
    """A number below a hundred in Roman numerals."""
    return ROMAN_TENS[number // 10] + ROMAN_UNITS[number % 10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    count = parser.parse_args().tasks
    says = Feedback()
    rule = [
        text.format(tool=tool, argument=argument)
        for text in (says.malformed, says.refused, says.unwanted, says.wrong, says.missing, says.superfluous,
                     says.unfinished, says.anything)
        for tool, argument in itertools.product(("modify_item", "exchange_item"), ("order_id", "colour", "city"))
    ]  # fmt: skip
    rejected = {"honest": 0, "rule": 0}
    spelt: dict[str, list[bool]] = defaultdict(list)
    for difficulty in (0, 1):
        world = make_world(Shop(difficulty=difficulty))
        for number in range(count // 2):
            gold = world.task("train", number).gold
            rejected["honest"] += sum(bool(leaked(text, gold)) for text in HONEST)
            rejected["rule"] += sum(bool(leaked(text, gold)) for text in set(rule))
            orders = {v for call in gold for v in scalars(call.arguments) if isinstance(v, str) and v[:1] == "W"}
            for order in sorted(orders):
                digits = int(order[1:])
                spelt["words"].append(bool(leaked(f"it is W {words(digits)}", gold)))
                spelt["digit by digit"].append(bool(leaked(f"w {' '.join(UNITS[int(d)] for d in order[1:])}", gold)))
                spelt["Roman"].append(bool(leaked(f"W {roman(digits)}", gold)))
                if len(roman(digits)) > 1:
                    spelt["Roman, run together"].append(bool(leaked(f"W{roman(digits)}", gold)))
                spelt["words, run together"].append(bool(leaked(f"W{words(digits)}", gold)))
                for larger in (100 + digits, 10 * digits, 1000 + digits, 100 * digits):
                    order_of = [Call("f", {"order": f"W{larger}"})]
                    spelt["words above a hundred"].append(bool(leaked(f"it is W {words(larger)}", order_of)))
    for name, texts in (("honest", HONEST), ("rule", sorted(set(rule)))):
        print(f"{name}: {rejected[name]} of {len(texts) * count} rejected ({rejected[name] / len(texts) / count:.2%})")
    for name, found in spelt.items():
        print(f"order number, {name}: found {sum(found)} of {len(found)} ({sum(found) / max(1, len(found)):.1%})")


if __name__ == "__main__":
    main()
