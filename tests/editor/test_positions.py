"""Offsets and the positions of the protocol, in UTF-16 units."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlspec.editor.positions import Lines


@given(st.text(alphabet="ab\n\U0001f600é", max_size=60), st.data())
def test_every_offset_survives_the_way_there_and_back(text: str, data: st.DataObject) -> None:
    lines = Lines(text)
    offset = data.draw(st.integers(0, len(text)))
    assert lines.offset(*lines.position(offset)) == offset


def test_a_character_outside_the_basic_plane_counts_twice() -> None:
    assert Lines("a\n\U0001f600b").position(3) == (1, 2)


def test_positions_outside_of_the_text_are_moved_into_it() -> None:
    lines = Lines("ab\ncd")
    assert (lines.offset(0, 99), lines.offset(9, 0), lines.position(99)) == (2, 5, (1, 2))
