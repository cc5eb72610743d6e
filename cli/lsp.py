"""`rlc lsp`: the language server, for editors."""

from __future__ import annotations

import click


@click.command()
@click.option("--stdio", is_flag=True, help="Speak over standard input and output (the only way, and the default).")
def lsp(stdio: bool) -> None:
    """Serve the language to an editor: diagnostics, hover, completion, rename, formatting."""
    import importlib.util

    if importlib.util.find_spec("pygls") is None:
        raise click.ClickException("the language server needs pygls: pip install 'rlspec[editor]'")
    from rlspec.editor.greeting import serve

    serve()
