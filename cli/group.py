"""The click group of `rlc`: a command's module is imported when the command is called."""

from __future__ import annotations

import importlib

import click

from rlspec.cli.main import COMMANDS


class _Lazy(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, f"{cmd_name}_" if hasattr(module, f"{cmd_name}_") else cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from rlspec.dsl.diagnostics import near_name

            near = near_name(args[0], COMMANDS) if args else None
            if near is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near!r}?", ctx) from error


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rlspec", prog_name="rlc")
def rlc() -> None:
    """rlspec: write, compare and run experiments that train tool-use agents."""
