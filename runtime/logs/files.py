"""Files of JSON objects: one list, one object, or one object a line; gzipped when the name says so."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from rlspec.runtime.refusal import Refusal


def refuse(path: Path, reason: str, cure: str = "") -> Refusal:
    """RLC0711: the file does not hold what an import expects."""
    return Refusal("RLC0711", f"{path}: {reason}", cure or "see docs/logs.md for the form of each kind of log")


def read_records(path: Path) -> list[dict[str, Any]]:
    """The objects of a file.

    Raises:
        Refusal: RLC0701 it cannot be read, RLC0711 it is no JSON, or holds something that is no object.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse(path, "is no UTF-8 text") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise refuse(path, f"is a damaged gzip file: {error}") from error
    except OSError as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error.strerror}") from error
    try:
        whole = json.loads(text)
        records = whole if isinstance(whole, list) else [whole]
    except RecursionError as error:
        raise refuse(path, "nests too deeply") from error
    except ValueError:
        records = _lines(path, text)
    for place, record in enumerate(records):
        if not isinstance(record, dict):
            raise refuse(path, f"entry {place} is no object")
    return records


def _lines(path: Path, text: str) -> list[Any]:
    out = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                out.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise refuse(path, f"line {number} is no JSON: {error}") from error
    return out
