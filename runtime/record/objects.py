"""JSON objects that stand in files of their own: manifests, reports, results, logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlspec.runtime.refusal import Refusal


def read_object(path: Path, cure: str = "restore it from a copy") -> dict[str, Any]:
    """The object of a file; `cure` is what to do about a damaged one.

    Raises:
        Refusal: RLC0701, it cannot be read; RLC0706, it holds something else.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Refusal("RLC0706", f"{path} is damaged: {error}", cure) from error
    if not isinstance(value, dict):
        raise Refusal("RLC0706", f"{path} is damaged: it holds no object", cure)
    return value


def object_bytes(value: Any) -> bytes:
    """What stands in the file."""
    return json.dumps(value, indent=1).encode() + b"\n"
