"""Slips of the hand: two words of which one was meant and the other typed."""

from __future__ import annotations

SHORTEST_WORD = 4  # of shorter words, one slip leads to too many others


def slip(written: str, meant: str) -> bool:
    """Whether one inserted, missing, wrong or swapped letter leads from one word to the other.

    >>> slip("layerz", "layers"), slip("trian", "train"), slip("clip_lo", "clip_high")
    (True, True, False)
    """
    if written == meant or abs(len(written) - len(meant)) > 1 or min(len(written), len(meant)) < SHORTEST_WORD:
        return False
    start = 0
    while start < min(len(written), len(meant)) and written[start] == meant[start]:
        start += 1
    rest, wanted = written[start:], meant[start:]
    if len(rest) == len(wanted):
        swapped = len(rest) >= 2 and rest[1] + rest[0] + rest[2:] == wanted
        return rest[1:] == wanted[1:] or swapped
    return rest[1:] == wanted or rest == wanted[1:]
