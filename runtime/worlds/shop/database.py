"""The shop's database: its tables, images of it, and the hash of its content.

    image = image_of(rows)            # bytes; built once per task
    connection = connect(image)       # a database of one's own, some 20 microseconds
    content_hash(content(connection)) # equal for equal content, whatever the order of the rows

Identifiers that a write would draw (a serial number, a time) do not exist, so that equal deeds in another order leave
equal content.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from rlspec.runtime.worlds.shop.lexicon import PRICES, VARIANTS

SCHEMA = """
PRAGMA page_size = 1024;
CREATE TABLE users (user_id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, credit INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE addresses (user_id TEXT PRIMARY KEY REFERENCES users, city TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE payment_methods (user_id TEXT NOT NULL REFERENCES users, method TEXT NOT NULL,
  PRIMARY KEY (user_id, method)) WITHOUT ROWID;
CREATE TABLE gift_cards (card TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users, amount INTEGER NOT NULL,
  redeemed INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE items (item TEXT PRIMARY KEY, price INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE variants (item TEXT NOT NULL REFERENCES items, colour TEXT NOT NULL,
  PRIMARY KEY (item, colour)) WITHOUT ROWID;
CREATE TABLE orders (order_id TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users, status TEXT NOT NULL,
  method TEXT NOT NULL, city TEXT NOT NULL, rerouted INTEGER NOT NULL, rebilled INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE order_items (order_id TEXT NOT NULL REFERENCES orders, item TEXT NOT NULL, colour TEXT NOT NULL,
  state TEXT NOT NULL, PRIMARY KEY (order_id, item)) WITHOUT ROWID;
CREATE TABLE refunds (order_id TEXT NOT NULL REFERENCES orders, item TEXT NOT NULL, method TEXT NOT NULL,
  amount INTEGER NOT NULL, PRIMARY KEY (order_id, item)) WITHOUT ROWID;
"""
WIDTH = {"users": 3, "addresses": 2, "payment_methods": 2, "gift_cards": 4, "orders": 7, "order_items": 4, "refunds": 4}
"""Columns of the tables that tasks fill and tools write. `items` and `variants`, the goods, are the same in every
database and no tool writes to them."""
_READ_ALL = {table: f"SELECT * FROM {table}" for table in WIDTH}

Rows = Mapping[str, Sequence[Sequence[Any]]]


def connect(image: bytes) -> sqlite3.Connection:
    """A database in memory with the image's content. Not bound to a thread."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.deserialize(image)
    return connection


@cache
def _catalogue() -> bytes:
    """The image of a shop with goods and without users."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    connection.executemany("INSERT INTO items VALUES (?, ?)", PRICES.items())
    made_in = [(item, colour) for item, colours in VARIANTS.items() for colour in colours]
    connection.executemany("INSERT INTO variants VALUES (?, ?)", made_in)
    image = connection.serialize()
    connection.close()
    return image


def image_of(rows: Rows) -> bytes:
    """The image of the shop with these users, orders and so on, by table."""
    connection = connect(_catalogue())
    connection.execute("BEGIN")
    for table, filled in rows.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * WIDTH[table])})", filled)
    connection.execute("COMMIT")
    image = connection.serialize()
    connection.close()
    return image


def content(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the tables that can differ, in no particular order."""
    return {table: connection.execute(query).fetchall() for table, query in _READ_ALL.items()}


def content_hash(tables: Mapping[str, Iterable[Sequence[Any]]]) -> str:
    """SHA-256 over the content, in hexadecimal: tables by name, rows sorted by their text. The order of rows and of
    tables does not count; a row that is there twice does; 1, 1.0 and "1" are three different values."""
    digest = hashlib.sha256()
    for table in sorted(tables):
        rows = sorted([repr(tuple(row)) for row in tables[table]])
        digest.update(repr((table, rows)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()
