"""What git knows of specs: a text to compare (`textconv`), the line that a hunk's head shows (`xfuncname`), a merge
driver. Attributes are committed, the configuration is this repository's own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ATTRIBUTES = ".gitattributes"
LINE = "*.rlspec diff=rlspec"
MERGING = " merge=rlspec"
# What a hunk stands in: the last line above it that begins an experiment, a definition, or a declaration in one.
HUNKS = r"^[ ]{0,2}([a-z_.]+[ ]+[A-Za-z_\"][^=]*([{=].*)?)$"
DIFF = {"diff.rlspec.textconv": "rlc git show", "diff.rlspec.cachetextconv": "true", "diff.rlspec.xfuncname": HUNKS}
MERGE = {
    "merge.rlspec.name": "three-way merge of specs by their paths",
    "merge.rlspec.driver": "rlc merge %O %A %B -o %A --path %P",
}


class GitFailed(Exception):
    """git refused, or there is no repository."""


def _git(folder: Path, *words: str, lenient: bool = False) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise GitFailed("git is not installed") from error
    if done.returncode and not lenient:
        raise GitFailed(done.stderr.strip() or f"git {words[0]} failed")
    return done.stdout.strip()


def root(folder: Path) -> Path:
    """The top folder of the repository around a folder.

    Raises:
        GitFailed: there is none.
    """
    return Path(_git(folder, "rev-parse", "--show-toplevel"))


def install(folder: Path, merging: bool) -> list[str]:
    """Put the line and the configuration in; says what changed. Done twice, it changes nothing the second time.

    Raises:
        GitFailed: git refuses, or somebody else's attributes for specs are in the way.
    """
    done = []
    wanted = LINE + (MERGING if merging else "")
    path = folder / ATTRIBUTES
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    ours = [line for line in lines if _is_ours(line)]
    if ours != [wanted]:
        foreign = next((line for line in lines if line.split()[:1] == ["*.rlspec"] and not _is_ours(line)), None)
        if foreign is not None:
            raise GitFailed(f"{ATTRIBUTES} has a line of its own for specs; change it by hand: {foreign}")
        kept = [line for line in lines if not _is_ours(line)]
        path.write_text("\n".join([*kept, wanted, ""]), encoding="utf-8")
        done.append(f"{ATTRIBUTES}: {wanted}")
    for key, value in {**DIFF, **(MERGE if merging else {})}.items():
        if _git(folder, "config", "--local", "--get", key, lenient=True) != value:
            _git(folder, "config", "--local", key, value)
            done.append(f"git config: {key} = {value}")
    return done


def remove(folder: Path) -> list[str]:
    """Take the line and the configuration out; says what changed. An attributes file that held only our line goes too.

    Raises:
        GitFailed: git refuses.
    """
    done = []
    path = folder / ATTRIBUTES
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if not _is_ours(line)]
    if kept != lines:
        if kept:
            path.write_text("\n".join([*kept, ""]), encoding="utf-8")
        else:
            path.unlink()
        done.append(f"{ATTRIBUTES}: taken out")
    for section in ("diff.rlspec", "merge.rlspec"):
        if _git(folder, "config", "--local", "--get-regexp", rf"^{section}\.".replace(".", r"\.", 1), lenient=True):
            _git(folder, "config", "--local", "--remove-section", section)
            done.append(f"git config: {section} taken out")
    return done


def _is_ours(line: str) -> bool:
    return line.strip() in (LINE, LINE + MERGING)


def compared(path: Path) -> str:
    """The text that git compares: the resolved spec with every value written out, or, where the spec does not compile,
    the file's own text.

    Raises:
        SpecError: the file cannot be read.
    """
    from rlspec.compiler.check import check
    from rlspec.compiler.resolved import resolved_text
    from rlspec.dsl.diagnostics import Source, SpecError
    from rlspec.dsl.parser import read

    try:
        source = read(path)
    except SpecError as error:
        if any(d.code == "RLC0701" for d in error.diagnostics):
            raise
        return path.read_bytes().decode("utf-8", errors="replace")
    found = check(Source(str(path), source.text))
    if found.experiment is None or found.plan is None:
        return source.text
    return resolved_text(found.experiment, found.plan) + _patches(source.text)


def _patches(text: str) -> str:
    """What a resolved spec leaves out and a reader of a diff must see: variants, claims, tests, as they are written."""
    from rlspec.dsl.diagnostics import Source
    from rlspec.dsl.parser import parse

    kinds = ("variant", "overlay", "sweep", "claims", "test")
    file, _ = parse(Source("", text))
    items = [i for e in file.items for i in (e, *(e.body or ())) if i.head.path[0].value in kinds]
    return "".join("\n" + text[i.span.start : i.span.stop] + "\n" for i in items)
