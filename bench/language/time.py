"""How long a user waits: `rlc` beside Hydra composing an equally large tree, whole processes, in the same run.

    bash bench/language/make_hydra_env.sh
    python bench/language/time.py [--rounds 15]

The processes take turns, so that what else the machine does falls on all of them. Two spec files: the sample grown to
200 lines, and TARL with its variants, each of which `rlc check` checks as well. Hydra composes as many leaves, from one
YAML file for each declaration (its compose API in an environment of nothing but Hydra; nothing is written). Byte code
is there for all of them, as after an installation.

- no cache: the cache folder is empty;
- changed: the cache is there, and one number of a formula is another than ever before;
- unchanged: the file was checked before.

Medians on the clock and of processor time (with that of child processes), and how often Hydra's time they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lsp import long_spec

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARL = ROOT / "specs" / "papers" / "tarl.rlspec"
HYDRA = HERE / ".venv" / "bin" / "python"
RLC = Path(sys.executable).with_name("rlc")
COMPOSE = """
import sys
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
with initialize_config_dir(sys.argv[1], version_base=None):
    OmegaConf.to_container(compose("config"), resolve=True)
"""
Lap = tuple[float, float]  # milliseconds on the clock and on processors


def leaves(path: Path) -> dict[tuple[str, ...], object]:
    """Every value of the experiment of a spec by its path, formulas as texts."""
    from rlspec.compiler.digests import side_of
    from rlspec.dsl.parser import read

    form = side_of(read(path)).form
    return {tuple(map(str, at)): leaf for at, leaf in [*form.leaves.items(), *form.formulas.items()]}


def hydra_tree(folder: Path, paths: list[tuple[str, ...]]) -> None:
    """A configuration of as many leaves: a file of its group for each declaration, and the list that composes them."""
    groups: dict[str, list[str]] = {}
    for number, path in enumerate(paths):
        name = "_".join(path[:2]).replace(" ", "_").replace("/", "_")
        field = "_".join(path[2:]).replace(" ", "_").replace("/", "_") or "value"
        value = (f"{number / 7:.6f}", str(number), "true", f'"value {number}"')[number % 4]
        groups.setdefault(name, []).append(f"{field}_{number}: {value}")
    lines = ["defaults:"]
    for name, fields in groups.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "main.yaml").write_text("\n".join(fields) + "\n", encoding="utf-8")
        lines.append(f"  - {name}: main")
    (folder / "config.yaml").write_text("\n".join([*lines, "  - _self_", ""]), encoding="utf-8")


class Clock:
    """Runs processes and notes what they took, by name."""

    def __init__(self, folder: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.env = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "RLSPEC_CACHE": str(folder / "cache")}
        self.laps: dict[str, list[Lap]] = {}

    def run(self, name: str, *words: str | Path, counted: bool = True, status: int = 0) -> None:
        start = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, words)), env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, ended, used = os.wait4(process.pid, 0)
        lap = (time.perf_counter() - start) * 1e3, (used.ru_utime + used.ru_stime) * 1e3
        process.returncode = os.waitstatus_to_exitcode(ended)
        if process.returncode != status:
            raise SystemExit(f"{' '.join(map(str, words))}: status {process.returncode}")
        if counted:
            self.laps.setdefault(name, []).append(lap)

    def median(self, name: str) -> Lap:
        clock, processor = zip(*self.laps[name], strict=True)
        return statistics.median(clock), statistics.median(processor)


def compared(clock: Clock, folder: Path, title: str, text: str, edit: tuple[str, str], rounds: int) -> None:
    """`rlc check` of a spec and Hydra, taking turns."""
    spec = folder / f"{title}.rlspec"
    spec.write_text(text, encoding="utf-8")
    paths = list(leaves(spec))
    tree = folder / f"{title}-hydra"
    hydra_tree(tree, paths)
    old, new = edit
    assert old in text, old

    def check(name: str, counted: bool) -> None:
        clock.run(f"{title} {name}", RLC, "check", spec, counted=counted)

    def fresh(counted: bool) -> None:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        check("no cache", counted)

    def changed(counted: bool) -> None:
        changed.number += 1  # type: ignore[attr-defined]
        spec.write_text(text.replace(old, new.format(changed.number), 1), encoding="utf-8")  # type: ignore[attr-defined]
        time.sleep(0.06)  # an answer is kept where the file is older than the run
        check("changed", counted)

    changed.number = 0  # type: ignore[attr-defined]

    def unchanged(counted: bool) -> None:
        check("unchanged", counted)

    def hydra(counted: bool) -> None:
        clock.run(f"{title} hydra", HYDRA, "-c", COMPOSE, tree, counted=counted)

    turns: list[Callable[[bool], None]] = [fresh, changed, unchanged, hydra]
    for number in range(rounds + 2):
        for turn in turns:
            turn(number >= 2)
    peer = clock.median(f"{title} hydra")
    size = f"{text.count(chr(10))} lines, {len(paths)} leaves"
    print(f"\n| {title}: {size} | clock | processor | of Hydra's processor time | bar |")
    print("|---|---|---|---|---|")
    print(f"| Hydra composes as many leaves | {peer[0]:.0f} ms | {peer[1]:.0f} ms | 1 | |")
    bars = {"no cache": "150 ms", "changed": "100 ms, 1/2.5", "unchanged": "30 ms, 1/10"}
    for name, bar in bars.items():
        own = clock.median(f"{title} {name}")
        print(f"| `rlc check`, {name} | {own[0]:.0f} ms | {own[1]:.0f} ms | 1/{peer[1] / own[1]:.1f} | {bar} |")


def others(clock: Clock, folder: Path, rounds: int) -> None:
    """Other commands on 200 lines."""
    spec, other, rough = folder / "a.rlspec", folder / "b.rlspec", folder / "rough.rlspec"
    clock.run("", RLC, "fmt", "--help", counted=False)
    spec.write_text(long_spec(200), encoding="utf-8")
    clock.run("", RLC, "fmt", spec, counted=False)
    text = spec.read_text(encoding="utf-8")
    other.write_text(text.replace("lr = 3e-4", "lr = 1e-4"), encoding="utf-8")
    # Name, bar, words, status, and what comes before: nothing, an empty cache, or the same command, not counted.
    rows: list[tuple[str, str, tuple[str | Path, ...], int, str]] = [
        ("python -c pass", "", (sys.executable, "-c", "pass"), 0, ""),
        ("rlc --help", "40 ms", (RLC, "--help"), 0, "again"),
        ("rlc --version", "40 ms", (RLC, "--version"), 0, "again"),
        ("rlc fmt, a formatted file, unchanged", "40 ms", (RLC, "fmt", spec), 0, "again"),
        ("rlc fmt, a formatted file, no cache", "", (RLC, "fmt", spec), 0, "empty"),
        ("rlc fmt, a file that changes", "", (RLC, "fmt", rough), 0, "empty"),
        ("rlc compile, no cache", "", (RLC, "compile", spec), 0, "empty"),
        ("rlc compile, unchanged", "", (RLC, "compile", spec), 0, "again"),
        ("rlc diff, no cache", "", (RLC, "diff", spec, other), 1, "empty"),
        ("rlc diff, unchanged", "", (RLC, "diff", spec, other), 1, "again"),
    ]
    time.sleep(0.1)
    for number in range(rounds + 1):
        for name, _, words, status, before in rows:
            clock.env["RLSPEC_CACHE"] = str(folder / ("empty" if before == "empty" else "cache"))
            if before == "empty":
                shutil.rmtree(folder / "empty", ignore_errors=True)
                rough.write_text(text.replace(" = ", "   =  "), encoding="utf-8")
            elif before == "again" and number < 1:
                clock.run("", *words, counted=False, status=status)
            clock.run(name, *words, counted=number >= 1, status=status)
    print(f"\n| {text.count(chr(10))} lines | clock | processor | bar |")
    print("|---|---|---|---|")
    for name, bar, *_ in rows:
        own = clock.median(name)
        command, comma, rest = name.partition(",")
        print(f"| `{command}`{comma}{rest} | {own[0]:.0f} ms | {own[1]:.0f} ms | {bar} |")


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=9)
    rounds = options.parse_args().rounds
    for needed, how in ((HYDRA, "bash bench/language/make_hydra_env.sh"), (RLC, "pip install")):
        if not needed.exists():
            raise SystemExit(f"there is no {needed}: {how}")
    load = os.getloadavg()[0]
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, load {load:.1f} at the start, {rounds} rounds."
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clock = Clock(folder)
        compared(clock, folder, "sample", long_spec(200), ("+ 0.1 * sum", "+ 0.09{:04} * sum"), rounds)
        compared(clock, folder, "TARL", TARL.read_text("utf-8"), (", -5, 5)", ", -5, 5.{:04})"), rounds)
        others(clock, folder, rounds)
    for script, *words in (("diff_time.py", "--repeats", "9"), ("lsp.py", "--keystrokes", "60")):
        print(f"\n{script} {' '.join(words)}:\n", flush=True)
        subprocess.run([sys.executable, HERE / script, *words], check=True, cwd=HERE)


if __name__ == "__main__":
    main()
