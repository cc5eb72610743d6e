"""A JSON database that is shared until somebody writes, and the benchmark's hash of it.

The hash is SHA-256 of the text of sorted nested tuples. So the order of keys does not count, that of lists does, and 1,
1.0 and "1" are three different values. A database of some thousand records is hashed in milliseconds, because the text
of a record that nobody changed is made once.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

Record = dict[str, Any]
Tables = Mapping[str, Mapping[str, Record]]


def nested(value: Any) -> Any:
    """A JSON value as nested tuples, objects as pairs sorted by key."""
    if isinstance(value, Mapping):
        return tuple((key, nested(value[key])) for key in sorted(value))
    return tuple(map(nested, value)) if isinstance(value, list | tuple) else value


def whole_hash(tables: Tables) -> str:
    """The benchmark's hash of a database, by its definition."""
    return hashlib.sha256(str(nested(tables)).encode()).hexdigest()


class Original:
    """A database that nobody writes to, with the text of each record."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.texts = {
            table: {key: repr((key, nested(record))) for key, record in records.items()}
            for table, records in tables.items()
        }


class Database:
    """One conversation's view of an original: what it edits is its own."""

    def __init__(self, original: Original, own: dict[str, dict[str, Record]] | None = None) -> None:
        self.original = original
        self.own: dict[str, dict[str, Record]] = own or {table: {} for table in original.tables}

    def get(self, table: str, key: Any) -> Record | None:
        """A record to read, or None."""
        if not isinstance(key, str):
            return None
        own = self.own[table].get(key)
        return own if own is not None else self.original.tables[table].get(key)

    def edit(self, table: str, key: str) -> Record:
        """A record to change. Raises KeyError where there is none."""
        if key not in self.own[table]:
            self.own[table][key] = copy.deepcopy(self.original.tables[table][key])
        return self.own[table][key]

    def add(self, table: str, key: str, record: Record) -> None:
        self.own[table][key] = record

    def fork(self) -> Database:
        """A view with the same content, which shares nothing with this one that can change."""
        return Database(self.original, copy.deepcopy(self.own))

    def hash(self) -> str:
        """The benchmark's hash of the content."""
        parts = []
        for table in sorted(self.original.texts):
            texts = dict(self.original.texts[table])
            texts |= {key: repr((key, nested(record))) for key, record in self.own[table].items()}
            parts.append(f"({table!r}, {_tuple([texts[key] for key in sorted(texts)])})")
        return hashlib.sha256(_tuple(parts).encode()).hexdigest()


def _tuple(texts: list[str]) -> str:
    """The text of a tuple of values with these texts."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
