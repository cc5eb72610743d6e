"""The command `rlc`. Commands live in files of their own and are imported when they are called; `rlc --help` needs no
import at all, because it is what a shell's user waits for most often."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from rlspec.cli.bundle import Bundle

COMMANDS = {
    "check": ("rlspec.cli.check", "Say everything that is wrong with specs."),
    "plan": ("rlspec.cli.plan", "What it costs and whether it fits: calls, tokens, memory, hours."),
    "compile": ("rlspec.cli.compile", "Lower a spec to a plan; print its graph, ranges and budget."),
    "eval": ("rlspec.cli.eval", "Type, range and value of an expression in a spec."),
    "test": ("rlspec.cli.test", "Score the literal trajectories of a spec's tests."),
    "why": ("rlspec.cli.why", "Where a value comes from: default, spec, variant, overlay, --set."),
    "run": ("rlspec.cli.run", "Train: run a spec or a plan."),
    "import": ("rlspec.cli.imports", "Turn logged conversations into trajectories."),
    "audit": ("rlspec.cli.audit", "Which kinds of turn go with success in a log; dead and misaligned turns."),
    "passk": ("rlspec.cli.passk", "How often all of k trials of a task succeed, in a log."),
    "export": ("rlspec.cli.export", "Write what a run holds for others: triples to train a diagnostician on."),
    "show": ("rlspec.cli.show", "Show a run: metrics, learning curve, trajectories turn by turn."),
    "fmt": ("rlspec.cli.fmt", "Lay specs out in their canonical form; keep every comment and the meaning."),
    "git": ("rlspec.cli.git", "Teach git to show specs by what they mean."),
    "lsp": ("rlspec.cli.lsp", "Serve the language to an editor, over standard input and output."),
    "diff": ("rlspec.cli.diff", "Say how one experiment differs from another."),
    "compare": ("rlspec.cli.compare", "Put experiments side by side, by role."),
    "fix": ("rlspec.cli.fix", "Bring specs of older editions to the present one."),
    "lock": ("rlspec.cli.lock", "Write down what a spec stands on: files, library, plugins, data."),
    "freeze": ("rlspec.cli.freeze", "Pin in the lock what a stage of a run has found."),
    "merge": ("rlspec.cli.merge", "Merge two versions of a spec that come from one; git's merge driver too."),
    "digest": ("rlspec.cli.digest", "Print the digests of text, syntax, value and graph."),
    "doc": ("rlspec.cli.doc", "A spec as a page for people: roles, formulas, constants, claims, variants."),
    "rescore": ("rlspec.cli.rescore", "Score logged conversations under one or two specs: what a difference does."),
    "graph": ("rlspec.cli.graph", "Draw a plan: who works with whom, stages, formulas; SVG, Mermaid, DOT."),
    "synth": ("rlspec.cli.synth", "Make environments of coding problems, measured and filtered."),
    "serve": ("rlspec.cli.serve", "Serve an environment's tools over MCP, or write down its tasks."),
    "explain": ("rlspec.cli.explain", "Explain a diagnostic code."),
}

ABOUT = "rlspec: write, compare and run experiments that train tool-use agents."


def help_text() -> str:
    """What `rlc --help` prints."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
    options = "  --version   Show the version and exit.\n  -h, --help  Show this message and exit."
    return f"Usage: rlc [OPTIONS] COMMAND [ARGS]...\n\n  {ABOUT}\n\nOptions:\n{options}\n\nCommands:\n{commands}"


def main(keep_at: str | None = None, bundle: Bundle | None = None) -> None:
    """Entry point. What a user can cure ends with status 2 and no traceback; an interrupted run with 130. `keep_at` is
    where the answer may be kept for the next time, `bundle` what modules come from (both of `rlspec.cli.answers`)."""
    if keep_at is None:
        sys.exit(_status())
    from rlspec.cli.kept import Observed, keep

    if bundle is not None:
        bundle.recall()
    with Observed(keep_at) as run:
        status = _status()
    if bundle is not None and bundle.said_by is not None:
        run.opened.add(os.fsencode(bundle.said_by))
    keep(run, status)
    if bundle is not None:
        bundle.refresh()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads any more
        pass
    os._exit(status)  # these commands only read: nothing is open, and to take every module apart takes a while


def _status() -> int:
    if sys.argv[1:] in ([], ["--help"], ["-h"]) and "_RLC_COMPLETE" not in os.environ:  # set by a shell that completes
        try:  # noqa: SIM105 (a check does without `contextlib`)
            print(help_text(), flush=True)
        except BrokenPipeError:
            pass
        return 0
    out = sys.stdout
    try:
        if _is_plain_check():
            return _checked(sys.argv[2:])
        if sys.argv[1:] in (["lsp"], ["lsp", "--stdio"]) and _is_there("pygls"):
            return _served()
        return _by_click()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except SystemExit:  # click's own when the reader of standard output has left; 1 would be an answer of `rlc diff`
        if sys.stdout is not out:
            return 0
        raise
    except Exception as error:
        if not _curable(error):
            raise
        return 2


def _is_plain_check() -> bool:
    """`rlc check FILE...`, without options: what is typed most."""
    words = sys.argv[2:]
    return sys.argv[1:2] == ["check"] and bool(words) and not any(w.startswith("-") for w in words) and (
        "_RLC_COMPLETE" not in os.environ)  # fmt: skip


def _checked(files: list[str]) -> int:
    from rlspec.cli.checking import run

    return run([_path(name) for name in files])


def _path(name: str) -> str | Path:
    """A path as `pathlib` would print it, whose import takes as long as to parse a spec."""
    strange = name.startswith("./") or name.endswith("/") or "//" in name or "/./" in name + "/"
    if name and not strange and os.sep == "/":
        return name
    from pathlib import Path

    return Path(name)


def _is_there(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


def _served() -> int:
    from rlspec.editor.greeting import serve

    serve()
    return 0


def _by_click() -> int:
    import click

    from rlspec.cli.group import rlc

    try:
        status = rlc.main(prog_name="rlc", standalone_mode=False)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        error.show()
        return 2
    return status if isinstance(status, int) else 0  # click hands an Exit's status back as the result


def _curable(error: Exception) -> bool:
    """Print diagnostics and refusals; anything else is a defect of ours and keeps its traceback."""
    from rlspec.dsl.diagnostics import SpecError, render

    if isinstance(error, SpecError):
        for diagnostic in error.diagnostics:
            print(render(diagnostic), file=sys.stderr)
        return True
    from rlspec.runtime.refusal import Refusal

    if isinstance(error, Refusal):
        print(f"error[{error.code}]: {error.reason}", file=sys.stderr)
        if error.cure:
            print(f"  = {error.cure}", file=sys.stderr)
        return True
    return False


if __name__ == "__main__":
    main()
