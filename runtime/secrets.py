"""Secrets: read from the environment when a component needs them, and kept out of everything that is written.

A spec and its plan hold names only. What `reveal` has given out in this process is replaced by `secret("NAME")` in the
texts that failures and refusals carry, because a library's error message may repeat the key that it was given.
"""

from __future__ import annotations

import os
from typing import Any

from rlspec.compiler.catalog.base import Secret
from rlspec.runtime.refusal import Refusal

SHORTEST = 6  # a shorter value would be found in harmless texts

_given: dict[str, str] = {}


def reveal(secret: Secret) -> str:
    """The value of a secret, for the one call that needs it. Do not keep it.

    Raises:
        Refusal: RLC0712, the environment has no such variable, or it is empty.
    """
    value = os.environ.get(secret.secret, "")
    if not value:
        raise Refusal(
            "RLC0712", f"the environment has no `{secret.secret}`", f"export {secret.secret}=... and run again"
        )
    _given[value] = secret.secret
    return value


def redacted(text: str) -> str:
    """The text with the names of secrets in the places of their values."""
    for value, name in _given.items():
        if len(value) >= SHORTEST and value in text:
            text = text.replace(value, f'secret("{name}")')
    return text


def present(fields: dict[str, Any]) -> None:
    """Refuse a component's fields whose secrets are not set; they are not read.

    Raises:
        Refusal: RLC0712.
    """
    for value in fields.values():
        if isinstance(value, dict) and value.keys() == {"secret"} and isinstance(value["secret"], str):
            if not os.environ.get(value["secret"]):
                name = value["secret"]
                raise Refusal("RLC0712", f"the environment has no `{name}`", f"export {name}=... and run again")
        elif isinstance(value, dict):
            present(value)
        elif isinstance(value, list | tuple):
            present(dict(enumerate(value)))  # type: ignore[arg-type]
