"""Env strings: one line that names an environment and its configuration.

    codegym_v1@tally_evens__TallyEvens@{"numbers": [3, 4], "k": 2}
    TallyEvens@{'numbers': [3, 4], 'k': 2}

The published reader takes what stands between the first and the second "@" and reads it as a Python literal, so an "@"
inside the configuration cuts it short and JSON's `true`, `false`, `null` fail although the pipeline writes JSON. Here
the head is cut off at most twice, whatever follows is the configuration, and it is read as JSON first and as a Python
literal second. Nothing is ever evaluated.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Any

SCHEME = "codegym_v1"
LONGEST = 1 << 20
"""Characters of an env string that are read; a longer one is refused before any parser sees it."""

_CODE_ID = re.compile(r"[A-Za-z0-9_.:\-]+")
_CLASS = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


class BadEnvString(ValueError):
    """An env string, or a part of one, that cannot be read or written; the message says why."""


@dataclass(frozen=True)
class EnvString:
    """`code_id` is None for the short form, which names the class alone. `configuration` maps the names of the hidden
    inputs to plain values: numbers, texts, booleans, None, and lists, tuples, sets and dicts of them."""

    code_id: str | None
    class_name: str
    configuration: dict[str, Any]


def read(text: str, class_name: str | None = None) -> EnvString:
    """Read an env string; with `class_name`, only one of that class.

    Raises:
        BadEnvString: it has another form, is too long, or its configuration is neither JSON nor a Python literal.
    """
    if len(text) > LONGEST:
        raise BadEnvString(f"{len(text):,} characters are more than {LONGEST:,}")
    head, at, payload = text.partition("@")
    code_id: str | None = None
    if at and head == SCHEME:
        head, at, payload = payload.partition("@")
        code_id, joint, name = head.rpartition("__")
        if not joint or not _CODE_ID.fullmatch(code_id):
            raise BadEnvString(f"{head[:80]!r} is not <code id>__<class name>")
        head = name
    if not at:
        raise BadEnvString("there is no `@` before the configuration")
    if not _CLASS.fullmatch(head):
        raise BadEnvString(f"{head[:80]!r} is no class name")
    if class_name is not None and head != class_name:
        raise BadEnvString(f"this is a {head}, not a {class_name}")
    return EnvString(code_id, head, configuration_of(payload))


def write(env: EnvString) -> str:
    """The line that `read` gives back as it was, types included.

    Raises:
        BadEnvString: a name does not fit the format, or the configuration is not made of plain values.
    """
    if not _CLASS.fullmatch(env.class_name):
        raise BadEnvString(f"{env.class_name!r} is no class name (letters, digits, single underscores)")
    if env.code_id is not None and not _CODE_ID.fullmatch(env.code_id):
        raise BadEnvString(f"{env.code_id!r} is no code id (letters, digits, and _ . : -)")
    head = env.class_name if env.code_id is None else f"{SCHEME}@{env.code_id}__{env.class_name}"
    text = f"{head}@{configuration_text(env.configuration)}"
    if len(text) > LONGEST:
        raise BadEnvString(f"{len(text):,} characters are more than {LONGEST:,}")
    return text


def configuration_of(payload: str) -> dict[str, Any]:
    """The configuration in a text: JSON, or else a Python literal.

    Raises:
        BadEnvString: it is neither, not a mapping from texts, or not of plain values.
    """
    try:
        value = json.loads(payload, parse_constant=_no_constant, object_pairs_hook=_without_twins)
    except BadEnvString:
        raise
    except RecursionError as error:
        raise BadEnvString("the configuration nests too deeply") from error
    except ValueError:
        try:
            value = ast.literal_eval(payload.strip())
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
            raise BadEnvString(f"the configuration {payload[:60]!r} is neither JSON nor a literal") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise BadEnvString("the configuration is not a mapping from names to values")
    configuration_text(value)  # what could not be written again (infinities, endless numbers) is not read either
    return value


def configuration_text(configuration: dict[str, Any]) -> str:
    """JSON where JSON keeps every value as it is, else a Python literal.

    Raises:
        BadEnvString: neither does.
    """
    try:
        wanted = repr(configuration)
    except RecursionError as error:
        raise BadEnvString("the configuration nests too deeply") from error
    except ValueError as error:
        raise BadEnvString(f"the configuration cannot be written: {error}") from error
    try:
        as_json = json.dumps(configuration, ensure_ascii=False, allow_nan=False)
        as_json.encode()
        if repr(json.loads(as_json)) == wanted:
            return as_json
    except (TypeError, ValueError):
        pass
    except RecursionError as error:
        raise BadEnvString("the configuration nests too deeply") from error
    try:
        wanted.encode()
        if repr(ast.literal_eval(wanted)) == wanted:
            return wanted
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadEnvString("the configuration is not made of plain values") from error
    raise BadEnvString("the configuration is not made of plain values")


def _no_constant(text: str) -> None:
    raise BadEnvString(f"{text} is no value that can be compared")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadEnvString("a name stands twice in the configuration")
    return found
