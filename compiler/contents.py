"""Contents: files and folders that the text fields of components name, and what is in them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlspec.compiler.catalog.base import Ref, Struct
from rlspec.compiler.components import struct_of
from rlspec.dsl.annotations import Any


def named_files(owner: type[Struct], fields: Mapping[str, Any], *folders: Path) -> Iterator[tuple[str, Path]]:
    """Text fields of a component that are the path of something, as they are written and where that is: in the first of
    the folders that holds it."""
    for text in _texts(owner, fields):
        for path in (folder / text for folder in folders):
            if text and "\0" not in text and len(text) < 1024 and path.exists():
                yield text.replace(os.sep, "/"), path
                break


def content(path: Path) -> str:
    """SHA-256 of a file; of a folder, of its files' names and contents."""
    if path.is_file():
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return f"sha256:{digest.hexdigest()}"
    inside = sorted(p for p in path.rglob("*") if p.is_file())
    listed = [[p.relative_to(path).as_posix(), content(p)] for p in inside]
    return f"tree:{hashlib.sha256(json.dumps(listed).encode()).hexdigest()}"


def _texts(owner: type[Struct], values: Mapping[str, Any]) -> Iterator[str]:
    for name, info in owner.model_fields.items():
        value, struct = values.get(name), struct_of(info.annotation)
        if struct is not None and isinstance(value, dict):
            yield from _texts(struct, value)
        elif "str" in str(info.annotation) and not any(isinstance(m, Ref) for m in info.metadata):
            yield from (v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, str))
