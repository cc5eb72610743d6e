"""Prompts of users and judges that are language models: jinja2 templates of this folder's `prompts`."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    loader = PackageLoader("rlspec.runtime.worlds", "prompts")
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)


def prompt(name: str, **parts: Any) -> str:
    """The text of a template with its parts; a part that is missing is an error, one that is not used is none."""
    return _environment().get_template(f"{name}.jinja").render(**parts).strip()
