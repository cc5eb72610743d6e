"""The hash of the content: what counts and what does not; images are databases of one's own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.catalog.shop import Shop
from rlspec.runtime.worlds.shop import make_world
from rlspec.runtime.worlds.shop.database import connect, content, content_hash, image_of

values = st.one_of(st.text(max_size=6), st.integers(-(2**40), 2**40), st.none(), st.floats(allow_nan=False))
tables = st.dictionaries(st.text(max_size=5), st.lists(st.lists(values, max_size=4), max_size=8), max_size=5)


@settings(max_examples=60)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_tables_does_not_count(content_by_table, dice):
    shuffled = list(content_by_table.items())
    dice.shuffle(shuffled)
    mixed = {table: dice.sample(rows, len(rows)) for table, rows in shuffled}
    assert content_hash(mixed) == content_hash(content_by_table)


@settings(max_examples=60)
@given(tables, st.data())
def test_every_value_counts(content_by_table, data):
    filled = sorted(table for table, rows in content_by_table.items() if any(rows))
    if not filled:
        return
    table = data.draw(st.sampled_from(filled))
    place = data.draw(st.sampled_from([place for place, row in enumerate(content_by_table[table]) if row]))
    rows = [list(row) for row in content_by_table[table]]
    new = data.draw(values.filter(lambda value: repr(value) != repr(rows[place][0])))
    rows[place][0] = new
    assert content_hash(content_by_table | {table: rows}) != content_hash(content_by_table)


def test_the_number_of_equal_rows_and_the_type_of_a_value_count():
    assert content_hash({"t": [(1,), (1,)]}) != content_hash({"t": [(1,)]})
    assert len({content_hash({"t": [(value,)]}) for value in (1, 1.0, "1", None)}) == 4


def test_a_row_moved_to_another_table_counts():
    assert content_hash({"a": [(1,)], "b": []}) != content_hash({"a": [], "b": [(1,)]})


def test_rows_written_in_another_order_leave_the_same_content():
    rows = make_world(Shop()).task("train", 3).payload["rows"]
    forwards = content_hash(content(connect(image_of(rows))))
    backwards = content_hash(content(connect(image_of({table: filled[::-1] for table, filled in rows.items()}))))
    assert forwards == backwards


def test_two_databases_of_one_image_share_nothing():
    image = image_of(make_world(Shop()).task("train", 0).payload["rows"])
    one, other = connect(image), connect(image)
    one.execute("DELETE FROM orders")
    assert other.execute("SELECT count(*) FROM orders").fetchone()[0] > 0
