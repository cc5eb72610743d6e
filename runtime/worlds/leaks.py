"""Leaks: whether a text gives away a value that the agent has to find for itself.

    leaked("error : wrong status", gold)            # []
    leaked("status should be OPEN", gold)           # ["open"]

Feedback on a failed call may say what is wrong, not what would be right (Fission-GRPO, arXiv 2601.15625, has its
annotators look for this; here it is a rule). A value is found in any spelling: whatever its case and punctuation, with
its parts apart or run together, a number in digits, with a decimal point, in words, digit by digit or in Roman
numerals, alone and inside an identifier ("W seventeen", "w one seven" and "W XVII" are W17). How numbers are spelt is
told in `numerals.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rlspec.runtime.worlds import numerals
from rlspec.runtime.worlds.protocol import Call

_WORD = re.compile(r"[^\W_]+")
_SHORTEST = 4  # characters of a value that is looked for run together: shorter ones stand in other words by chance


def leaked(text: str, gold: Sequence[Call]) -> list[str]:
    """The argument values of the gold calls that the text says, in a plain spelling; empty when it says none. Booleans
    and nulls are no values that could be told from common words; neither are texts without a letter or digit."""
    words = _words(text)
    said = [word for word, _ in words]
    readings = [_runs(reading) for reading in numerals.readings(words)]
    found = []
    for value in dict.fromkeys(v for call in gold for v in scalars(call.arguments)):
        spellings = [parts for spelling in _spellings(value) if (parts := _parts(spelling))]
        if any(_stands(parts, runs, together) for parts in spellings for runs, together in readings) or any(
            numerals.ends_in_one("".join(parts), words, said) for parts in spellings
        ):
            found.append("".join(spellings[0]))
    return found


def _stands(parts: Sequence[str], runs: set[str], together: str) -> bool:
    """Whether a value stands in a reading of the text, in one of its own readings."""
    joined = {"".join(reading) for reading in numerals.readings([(part, False) for part in parts])}
    return any(value in runs or (len(value) >= _SHORTEST and value in together) for value in joined)


def _runs(said: Sequence[str]) -> tuple[set[str], str]:
    """What consecutive words say run together, and what all of them do."""
    return {"".join(said[i:j]) for i in range(len(said)) for j in range(i + 1, len(said) + 1)}, "".join(said)


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


def _words(text: str) -> list[tuple[str, bool]]:
    """Words and numbers of a text without case, accents and punctuation, each with whether it is in capitals; "12.0" is
    12."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub(r"(?<=\d)[.,]0+(?!\d)", "", plain)
    return [(part, word.isupper()) for word in _WORD.findall(plain) for part in _WORD.findall(word.casefold())]


def _parts(text: str) -> list[str]:
    return [word for word, _ in _words(text)]
