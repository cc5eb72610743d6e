"""Environments in a folder: one JSON file each, and `codegym.json` with how they were made and what each filter let
through. And the cache, in which an experiment's stage finds what an equal one has made before.

    write(made, settings, Path("envs"))
    environments = read(Path("envs"))
    environments = made_for(settings, cache)       # from the cache, or made now
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.compiler.plan import canonical
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.environment import Environment
from rlspec.runtime.worlds.codegym.problems import read_problems, text_of_problems
from rlspec.runtime.worlds.codegym.synthesis import synthesise
from rlspec.runtime.worlds.codegym.yields import Made

FORMAT = "rlspec.codegym/1"
ABOUT = "codegym.json"


def write(made: Made, settings: Synthesis, folder: Path) -> None:
    """Write a folder of environments, whole or not at all.

    Raises:
        Refusal: RLC0505, no environment was admitted; RLC0702, it exists already or cannot be written.
    """
    if not made.environments:
        table = "\n".join(made.lines())
        raise Refusal("RLC0505", f"no environment was admitted:\n{table}", "admit more, or give other problems")
    if folder.exists() and any(folder.iterdir()):
        raise Refusal("RLC0702", f"{folder} is not empty", "write into another folder with -o")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as draft:
            whole = Path(draft) / "envs"
            whole.mkdir()
            for environment in made.environments:
                text = environment.model_dump_json(indent=1)
                (whole / f"{_file_name(environment.id)}.json").write_text(text + "\n", encoding="utf-8")
            about = {
                "format": FORMAT,
                "settings": settings.model_dump(mode="json"),
                "environments": len(made.environments),
                "yields": [
                    {
                        "filter": c.filter,
                        "problems": [c.problems, c.problems_in],
                        "tasks": [c.tasks, c.tasks_in],
                        "why_not": dict(c.why.most_common()),
                    }
                    for c in made.table
                ],
                "metrics": made.metrics(),
            }
            (whole / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            if folder.exists():
                folder.rmdir()
            whole.rename(folder)
    except OSError as error:
        raise Refusal("RLC0702", f"{folder}: {error.strerror or error}", "write into another folder with -o") from error


def _file_name(identity: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", identity).lstrip(".")


def read(folder: Path) -> list[Environment]:
    """The environments of a folder, sorted by id.

    Raises:
        Refusal: RLC0701, it is no such folder, or a file of it is damaged.
    """
    about = folder / ABOUT
    try:
        if json.loads(about.read_text(encoding="utf-8")).get("format") != FORMAT:
            raise ValueError(f"{ABOUT} is of another format")
        found = [
            Environment.model_validate_json(path.read_text(encoding="utf-8"))
            for path in sorted(folder.glob("*.json"))
            if path.name != ABOUT
        ]
    except ValidationError as error:
        raise Refusal("RLC0701", f"{folder}: {error.errors()[0]['msg']}", "write it again with rlc synth") from error
    except (OSError, ValueError, AttributeError) as error:
        raise Refusal("RLC0701", f"{folder}: {error}", "give a folder that rlc synth has written") from error
    return sorted(found, key=lambda e: e.id)


@cache
def _code() -> str:
    """SHA-256 of the code that makes environments."""
    code = hashlib.sha256()
    for path in sorted(files("rlspec.runtime.worlds").joinpath("codegym").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".py"):
            code.update(path.name.encode() + b"\0" + path.read_bytes())
    return code.hexdigest()


def digest(settings: Synthesis) -> str:
    """Names what a stage makes: its settings, the problems' text, and the code that makes it."""
    identity = {
        "settings": settings.model_dump(mode="json"),
        "problems": hashlib.sha256(text_of_problems(settings.problems).encode()).hexdigest(),
        "code": _code(),
    }
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:32]


def made_for(settings: Synthesis, cache: Path) -> Path:
    """The folder with a stage's environments: the cache's, or made now. Processes that ask for the same wait for the
    one that makes it.

    Raises:
        Refusal: as `synthesise` and `write`.
    """
    shelf = cache / "codegym"
    shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = shelf / digest(settings)
    with open(shelf / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ABOUT).exists():
            made = synthesise(settings, read_problems(settings.problems))
            shutil.rmtree(folder, ignore_errors=True)
            write(made, settings, folder)
        os.utime(folder)
    return folder
