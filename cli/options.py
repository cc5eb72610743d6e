"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def composing(command: F) -> F:
    """The options that say which experiment of a file is meant."""
    with_ = click.option(
        "--with", "overlays", multiple=True, metavar="FILE", type=click.Path(path_type=Path), help="Apply an overlay."
    )
    return click.option("--variant", metavar="NAME", help="Take this variant of the spec.")(with_(command))
