"""Numbers in words and in Roman numerals: every spelling of a gold value is found, and common words are none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.catalog.resampling import Feedback
from rlspec.runtime.worlds.leaks import leaked
from rlspec.runtime.worlds.numerals import counted, roman
from rlspec.runtime.worlds.protocol import Call

SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["-", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def words(n: int, joint: str = "-", between: str = " and ") -> str:
    """A number below ten million in English, by the rules of school."""
    if n < 20:
        return SMALL[n]
    if n < 100:
        return TENS[n // 10] + (joint + SMALL[n % 10] if n % 10 else "")
    for scale, name in ((1_000_000, "million"), (1_000, "thousand"), (100, "hundred")):
        if n >= scale:
            rest = n % scale
            link = between if rest < 100 or name == "hundred" else " "
            return f"{words(n // scale, joint, between)} {name}" + (link + words(rest, joint, between) if rest else "")
    raise AssertionError(n)


def gold(value: str | int) -> list[Call]:
    return [Call("f", {"x": value})]


spelt = st.builds(
    lambda n, joint, between, case: (n, case(words(n, joint, between))),
    st.one_of(st.integers(0, 9_999), st.integers(0, 9_999_999)),
    st.sampled_from(["-", " ", ""]),
    st.sampled_from([" and ", " "]),
    st.sampled_from([str.lower, str.upper, str.title]),
)


@given(spelt, st.sampled_from(["", "it is ", "error : not "]), st.sampled_from(["", " .", " , please"]))
def test_a_number_is_found_in_words(said: tuple[int, str], before: str, after: str) -> None:
    number, text = said
    assert leaked(before + text + after, gold(number))
    assert leaked(before + text + after, gold(str(number)))


@given(spelt, st.sampled_from(["W", "ord", "#G"]), st.sampled_from(["", " ", "-"]))
def test_an_identifier_is_found_with_its_number_in_words(said: tuple[int, str], front: str, joint: str) -> None:
    number, text = said
    assert leaked(f"error : it is {front}{joint}{text}", gold(f"{front}{number}"))


@given(st.integers(1, 3_999), st.sampled_from(["W", "ord"]))
def test_roman_numerals_are_found(number: int, front: str) -> None:
    numeral = roman(number).upper()
    if number != 1:
        assert leaked(f"error : not {numeral}", gold(number))
        assert leaked(f"error : not {front} {numeral}", gold(f"{front}{number}"))
    if len(numeral) > 1:
        assert leaked(f"error : not {front.upper()}{numeral}", gold(f"{front}{number}"))
        assert leaked(f"error : not {front} {numeral.lower()}", gold(f"{front}{number}"))


@given(st.integers(1, 3_999))
def test_roman_numerals_are_written_as_they_are_read(number: int) -> None:
    pairs = dict(zip("mdclxvi", (1000, 500, 100, 50, 10, 5, 1), strict=True))
    values = [pairs[letter] for letter in roman(number)]
    assert sum(-v if v < max(values[i:]) else v for i, v in enumerate(values)) == number
    assert all(letter * 4 not in roman(number) for letter in "mdclxvi")


@given(spelt, st.integers(0, 9_999_999))
def test_another_number_is_not_found(said: tuple[int, str], other: int) -> None:
    """Read with "and" or without it a number is itself; a part of it may be what is said, but no other one."""
    number, text = said
    parts = text.lower().replace("-", " ").split()
    assert counted(parts) == [str(number)]
    alone = "".join(counted(parts, joins=False)), str(number)
    if not any(str(other) in run for run in alone) and str(other) not in "".join(x for x in alone[0] if x.isdigit()):
        assert not leaked(text, gold(f"W{other}"))


COMMON = (
    "i did a mix", "a mild civil vivid mill", "i see , you and i", "the taxi and the fix", "x is missing", "v or d ?",
    "six of these are livid", "it did not mix", "error : a lid , ill and dim", "oh , i see the point",
)  # fmt: skip


@pytest.mark.parametrize("text", COMMON)
@settings(max_examples=30)
@given(st.one_of(st.integers(7, 1_000), st.integers(7, 1_000).map("W{}".format)))
def test_common_words_are_no_numerals(text: str, value: str | int) -> None:
    assert leaked(text, gold(value)) == []


@settings(max_examples=20)
@given(st.one_of(st.integers(0, 5_000), st.integers(0, 5_000).map("W{}".format), st.integers(0, 99).map("A{}".format)))
def test_the_wordings_of_the_rule_give_no_number_away(value: str | int) -> None:
    says = Feedback()
    texts = (says.malformed, says.refused, says.unwanted, says.wrong, says.missing, says.superfluous, says.unfinished,
             says.anything)  # fmt: skip
    for text, tool, argument in itertools.product(texts, ("modify_item", "find"), ("order_id", "colour", "x", "i")):
        assert leaked(text.format(tool=tool, argument=argument), gold(value)) == []


def test_digits_may_be_said_one_by_one_with_an_oh_and_a_point() -> None:
    assert counted(["w", "one", "oh", "seven"]) == ["w", "1", "0", "7"]
    assert leaked("three point five", gold(3.5))  # type: ignore[arg-type]
    assert leaked("it is 2 hundred", gold(200))
    assert leaked("two hundred and five", gold(200))  # one number or two
    assert leaked("two hundred and five", gold(205))
    assert leaked("seventeen hundred", gold(1700))
    assert not leaked("two thousand", gold(200))
