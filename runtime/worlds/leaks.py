"""Leaks: whether a text gives away a value that the agent has to find for itself.

    leaked("error : wrong status", gold)            # []
    leaked("status should be OPEN", gold)           # ["open"]

Feedback on a failed call may say what is wrong, not what would be right (Fission-GRPO, arXiv 2601.15625, has its
annotators look for this; here it is a rule). A value is found in any spelling: whatever its case and punctuation, with
its parts apart or run together, a number in digits, with a decimal point, in words, digit by digit or in Roman
numerals, alone and inside an identifier ("W seventeen", "w one seven" and "W XVII" are W17).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rlspec.runtime.worlds.protocol import Call

_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {word: n for n, word in enumerate(_UNITS)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_ROMAN = re.compile(r"m{0,3}(cm|cd|d?c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_LETTERS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
_SHORTEST = 4  # characters of a value that is looked for run together: shorter ones stand in other words by chance


def leaked(text: str, gold: Sequence[Call]) -> list[str]:
    """The argument values of the gold calls that the text says, in a plain spelling; empty when it says none. Booleans
    and nulls are no values that could be told from common words; neither are texts without a letter or digit."""
    readings = [_runs(reading) for reading in _readings(_parts(text))]
    found = []
    for value in dict.fromkeys(v for call in gold for v in scalars(call.arguments)):
        spellings = [parts for spelling in _spellings(value) if (parts := _parts(spelling))]
        if any(_stands(parts, runs, together) for parts in spellings for runs, together in readings):
            found.append("".join(spellings[0]))
    return found


def _stands(parts: Sequence[str], runs: set[str], together: str) -> bool:
    """Whether a value stands in a reading of the text, in one of its own readings."""
    joined = {"".join(reading) for reading in _readings(parts)}
    return any(value in runs or (len(value) >= _SHORTEST and value in together) for value in joined)


def _runs(said: Sequence[str]) -> tuple[set[str], str]:
    """What consecutive words say run together, and what all of them do."""
    return {"".join(said[i:j]) for i in range(len(said)) for j in range(i + 1, len(said) + 1)}, "".join(said)


def _readings(parts: Sequence[str]) -> list[list[str]]:
    """The words as they are; with number words as digits; with Roman numerals of two letters and more as digits too."""
    plain = _counted(parts)
    roman = _counted([str(_roman(part)) if len(part) > 1 and _ROMAN.fullmatch(part) else part for part in parts])
    return [list(parts), *([plain] if plain != parts else []), *([roman] if roman != plain else [])]


def _counted(parts: Sequence[str]) -> list[str]:
    """Number words below a hundred as digits: "forty", "nine" is 49."""
    out: list[str] = []
    tens = 0
    for part in parts:
        number = _NUMBERS.get(part)
        if number is not None and tens and 0 < number < 10:
            out[-1] = str(tens + number)
        else:
            out.append(part if number is None else str(number))
        tens = number if number is not None and number >= 20 else 0
    return out


def _roman(part: str) -> int:
    values = [_LETTERS[letter] for letter in part]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def scalars(value: Any) -> Iterator[str | int | float]:
    """The texts and numbers inside a JSON value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from scalars(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from scalars(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _spellings(value: str | int | float) -> Iterable[str]:
    if isinstance(value, str):
        yield value
        try:
            value = float(value)
        except ValueError:
            return
    if value != value or value in (float("inf"), float("-inf")):
        return
    if float(value).is_integer():
        yield str(int(value))
    else:
        yield repr(float(value))


def _parts(text: str) -> list[str]:
    """Words and numbers of a text, without case, accents and punctuation; "12.0" is 12."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub(r"(?<=\d)[.,]0+(?!\d)", "", plain)
    return re.findall(r"[^\W_]+", plain)
