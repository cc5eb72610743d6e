"""Leaks: whether a text gives away a value that the agent has to find for itself.

    leaked("error : wrong status", gold)            # []
    leaked("status should be OPEN", gold)           # ["open"]

Feedback on a failed call may say what is wrong, not what would be right (Fission-GRPO, arXiv 2601.15625, has its
annotators look for this; here it is a rule). A value is found in any spelling: whatever its case and punctuation, a
number in digits, with a decimal point or, up to twenty, as a word, and with its parts run together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rlspec.runtime.worlds.protocol import Call

_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_SHORTEST = 4  # characters of a value that is looked for run together: shorter ones stand in other words by chance


def leaked(text: str, gold: Sequence[Call]) -> list[str]:
    """The argument values of the gold calls that the text says, in a plain spelling; empty when it says none. Booleans
    and nulls are no values that could be told from common words; neither are texts without a letter or digit."""
    said = _parts(text)
    together = "".join(said)
    runs = {"".join(said[i:j]) for i in range(len(said)) for j in range(i + 1, len(said) + 1)}
    found = []
    for value in dict.fromkeys(v for call in gold for v in scalars(call.arguments)):
        joined = ["".join(_parts(spelling)) for spelling in _spellings(value)]
        if any(
            spelling in runs or (len(spelling) >= _SHORTEST and spelling in together) for spelling in joined if spelling
        ):
            found.append(joined[0])
    return found


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
        if 0 <= value < len(_WORDS):
            yield _WORDS[int(value)]
    else:
        yield repr(float(value))


def _parts(text: str) -> list[str]:
    """Words and numbers of a text, without case, accents and punctuation; "12.0" is 12."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub(r"(?<=\d)[.,]0+(?!\d)", "", plain)
    return re.findall(r"[^\W_]+", plain)
