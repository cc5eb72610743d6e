"""Numbers as they may be spelt: English words up to millions, digit by digit, and Roman numerals.

    readings([("hundred", False), ("and", False), ("five", False)])     # ..., ["105"], ["100", "and", "5"]
    ends_in_one("w17", [("wxvii", True)], ["wxvii"])                    # True

A text has several readings, because "hundred and five" may be one number or two, and "XI" a number or a word. Roman
numerals are whole words only, never "i", which is a word; other single letters only as capitals. One that is run
together with the letters before it is looked for from the other side, by the value that it would have to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Word = tuple[str, bool]
"""A word in small letters, and whether it was written in capitals."""

_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_SIMPLE = {word: n for n, word in enumerate(_UNITS)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SIMPLE |= {f"{tens}{unit}": 10 * n + k for n, tens in enumerate(_TENS, 2) for k, unit in enumerate(_UNITS[:10]) if k}
_ROMAN = re.compile(r"m{0,3}(cm|cd|d?c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_STEPS = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LETTERS = {letters: n for n, letters in _STEPS if len(letters) == 1}
_ROMAN_ENDS = 4_000


def readings(words: Sequence[Word]) -> list[list[str]]:
    """The words as they are; with number words as digits, once with "and" as a part of them and once without; with
    Roman numerals as digits too. Each reading once."""
    plain = [word for word, _ in words]
    roman = [str(value) if (value := _roman(*word)) is not None else word[0] for word in words]
    found = [plain, *(counted(said, joins) for said in (plain, roman) for joins in (True, False))]
    return [reading for place, reading in enumerate(found) if reading not in found[:place]]


def counted(words: Sequence[str], joins: bool = True) -> list[str]:
    """Number words as digits: "forty", "nine" is 49; "one", "hundred", "and", "five" is 105 where "and" joins; "three",
    "point", "five" is 3 and 5, as the parts of 3.5 are."""
    out: list[str] = []
    place = 0
    while place < len(words):
        value, after = _number(words, place, joins)
        if after == place:
            zero = words[place] in ("o", "oh") and bool(out) and out[-1].isdigit() and _begins(words, place + 1)
            dot = words[place] == "point" and bool(out) and out[-1].isdigit() and _begins(words, place + 1)
            out += ["0"] if zero else [] if dot else [words[place]]
            place += 1
        else:
            out.append(str(value))
            place = after
    return out


def _begins(words: Sequence[str], place: int) -> bool:
    return place < len(words) and (words[place] in _SIMPLE or words[place] in ("o", "oh"))


def _number(words: Sequence[str], place: int, joins: bool) -> tuple[int, int]:
    """The longest number that begins at a place, and where it ends; there too if none begins."""
    total = part = 0
    last = 0  # of the part's words: what may follow is smaller
    at = place
    largest = 0
    while at < len(words):
        word = words[at]
        if at > place and joins and word == "and" and last in (100, 1_000, 1_000_000) and _begins(words, at + 1):
            at += 1
            continue
        if word in _SIMPLE:
            value = _SIMPLE[word]
            if at > place and not (last >= 100 or (20 <= last < 100 and last % 10 == 0 and 0 < value < 10)):
                break
            if value == 0 and at > place:
                break
            part, last = part + value, value
        elif word in _SCALES:
            scale = _SCALES[word]
            if scale == 100:
                if part >= 100:
                    break
                part = max(part, 1) * 100
            else:
                if largest and scale >= largest:
                    break
                total, part, largest = total + max(part, 1) * scale, 0, scale
            last = scale
        elif at == place and word.isascii() and word.isdigit() and words[at + 1 : at + 2] and words[at + 1] in _SCALES:
            part = last = int(word)
        else:
            break
        at += 1
    return total + part, at


def _roman(word: str, capitals: bool) -> int | None:
    """What a Roman numeral is; None for other words, and for "i"."""
    if word == "i" or not word or (len(word) == 1 and not capitals) or not _ROMAN.fullmatch(word):
        return None
    values = [_LETTERS[letter] for letter in word]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def roman(number: int) -> str:
    """A number from 1 to 3999 in Roman numerals, in small letters."""
    out = ""
    for value, letters in _STEPS:
        out += letters * (number // value)
        number %= value
    return out


def ends_in_one(value: str, words: Sequence[Word], said: Sequence[str]) -> bool:
    """Whether the text has an identifier that is letters and a number, such as w17, with its number spelt in the same
    word: "WXVII", in capitals, or "wseventeen"."""
    split = re.fullmatch(r"([^\W\d]+)(\d{1,7})", value)
    if split is None:
        return False
    front, number = split[1], int(split[2])
    if 0 < number < _ROMAN_ENDS and len(numeral := roman(number)) > 1 and (front + numeral, True) in words:
        return True
    return any(word.startswith(front) and _is(said[place:], front, split[2]) for place, word in enumerate(said))


def _is(said: Sequence[str], front: str, digits: str) -> bool:
    """Whether words that begin with the letters go on with the number."""
    rest = [said[0][len(front) :], *said[1 : 3 * len(digits)]]
    return rest[0] in _SIMPLE and any(run == digits for joins in (True, False) for run in _fronts(counted(rest, joins)))


def _fronts(parts: Sequence[str]) -> Iterator[str]:
    """The first part, the first two run together, and so on."""
    for end in range(1, len(parts) + 1):
        yield "".join(parts[:end])
