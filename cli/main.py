"""The command `rlc`. Commands live in files of their own and are imported when they are called, so that `rlc --help`
answers at once."""

from __future__ import annotations

import importlib
import sys

import click

COMMANDS = {
    "check": ("rlspec.cli.check", "Say everything that is wrong with specs."),
    "compile": ("rlspec.cli.compile", "Lower a spec to a plan; print its graph, ranges and budget."),
    "run": ("rlspec.cli.run", "Train: run a spec or a plan."),
    "show": ("rlspec.cli.show", "Show a run: metrics, learning curve, trajectories turn by turn."),
    "explain": ("rlspec.cli.explain", "Explain a diagnostic code."),
}


class _Lazy(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name if cmd_name != "compile" else "compile_")
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


def main() -> None:
    """Entry point. What a user can cure ends with status 2 and no traceback; an interrupted run with 130."""
    try:
        status = rlc.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if not _curable(error):
            raise
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)  # click hands an Exit's status back as the result


def _curable(error: Exception) -> bool:
    """Print diagnostics and refusals; anything else is a defect of ours and keeps its traceback."""
    from rlspec.dsl.diagnostics import SpecError, render

    if isinstance(error, SpecError):
        for diagnostic in error.diagnostics:
            click.echo(render(diagnostic), err=True)
        return True
    from rlspec.runtime.refusal import Refusal

    if isinstance(error, Refusal):
        click.echo(f"error[{error.code}]: {error.reason}", err=True)
        if error.cure:
            click.echo(f"  = {error.cure}", err=True)
        return True
    return False


if __name__ == "__main__":
    main()
