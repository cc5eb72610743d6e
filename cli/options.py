"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlspec.dsl.dataclass import dataclass

if TYPE_CHECKING:
    from rlspec.dsl.diagnostics import Source

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Patch:
    """`--patch path=value`: an overlay that stands on the command line. It comes after those in files."""

    text: str

    def __str__(self) -> str:
        return self.text


def composing(command: F) -> F:
    """The options that say which experiment of a file is meant. The command's `overlays` are files, then patches."""

    @wraps(command)
    def with_patches(*args: Any, overlays: tuple[Path, ...], patches: tuple[str, ...], **named: Any) -> Any:
        return command(*args, overlays=(*overlays, *map(Patch, patches)), **named)

    for option in (
        click.option("--patch", "patches", multiple=True, metavar="PATH=VALUE", help="Patch one value of the spec."),
        click.option("--with", "overlays", multiple=True, metavar="FILE", type=click.Path(path_type=Path),
                     help="Apply an overlay."),
        click.option("--variant", metavar="NAME", help="Take this variant of the spec."),
    ):  # fmt: skip
        with_patches = option(with_patches)
    return with_patches  # type: ignore[return-value]


def overlay(chosen: Path | Patch) -> Source:
    """The source of an overlay.

    Raises:
        SpecError: its file cannot be read, or the patch is none.
    """
    from rlspec.compiler.compose import on_command_line
    from rlspec.dsl.parser import read

    return on_command_line(chosen.text) if isinstance(chosen, Patch) else read(chosen)


def option_of(chosen: Path | Patch) -> str:
    """The words that choose an overlay again."""
    import shlex

    return shlex.join(["--patch" if isinstance(chosen, Patch) else "--with", str(chosen)])
