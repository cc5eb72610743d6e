"""Counts the planted mistakes that `rlc check` names, and those that the configuration of verl and TRL refuses.

    python bench/catches/run.py                      # rlc alone
    python bench/catches/run.py --peers              # with bench/peers/.venv (bench/peers/make_env.sh makes it)

rlc counts only when the code that belongs to the mistake is among its diagnostics, and not on the spec without a
mistake. A peer counts when loading and validating its configuration ends with any error at all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from mistakes import MISTAKES, Mistake  # noqa: E402

TESTS = HERE.parents[1] / "tests"
SPECS = sorted({mistake.spec for mistake in MISTAKES})


def sound(name: str) -> str:
    """The spec as it is, without a mistake."""
    return (TESTS / f"{name}.rlspec").read_text(encoding="utf-8")


def planted(mistake: Mistake) -> str:
    """The spec with the mistake in it.

    Raises:
        ValueError: the spec no longer says what is to be replaced.
    """
    text = sound(mistake.spec)
    for old, new in mistake.edits:
        if old not in text:
            raise ValueError(f"{mistake.what}: the spec no longer says {old!r}")
        text = text.replace(old, new, 1)
    return text


def said(paths: list[Path]) -> dict[str, list[str]]:
    """file name -> the codes that `rlc check` reports for it, all files in one process."""
    command = [sys.executable, "-m", "rlspec.cli.main", "check", "--format", "json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found: dict[str, list[str]] = {p.name: [] for p in paths}
    for record in json.loads(done.stdout):
        found[Path(record["path"]).name].append(record["code"])
    return found


def refused(peer: str) -> dict[str, str]:
    """mistake -> the first line of the peer's error, "" where it took the mistake; without those it cannot make."""
    python = HERE.parent / "peers" / ".venv" / "bin" / "python"
    plans = {m.what: list(m.verl or ()) if peer == "verl" else m.trl for m in MISTAKES}
    asked = {what: plan for what, plan in plans.items() if plan}
    done = subprocess.run([str(python), str(HERE / f"load_{peer}.py")], input=json.dumps(asked), capture_output=True,
                          text=True, timeout=900)  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--peers", action="store_true")
    peers = {p: refused(p) for p in ("verl", "trl")} if options.parse_args().peers else {}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number:03}.rlspec" for number in range(len(MISTAKES))]
        whole = [Path(folder) / f"{name}.rlspec" for name in SPECS]
        texts = [*(planted(m) for m in MISTAKES), *(sound(name) for name in SPECS)]
        for path, text in zip([*paths, *whole], texts, strict=True):
            path.write_text(text, encoding="utf-8")
        codes = said([*paths, *whole])
    before = {name: set(codes[path.name]) for name, path in zip(SPECS, whole, strict=True)}
    found_by = {m: set(codes[path.name]) - before[m.spec] for m, path in zip(MISTAKES, paths, strict=True)}
    caught = [m.code in found_by[m] for m in MISTAKES]
    exact = [found_by[m] == {m.code} for m in MISTAKES]
    print("| mistake | rlc |" + "".join(f" {p} |" for p in peers))
    print("|---|---|" + "---|" * len(peers))
    for mistake, found in zip(MISTAKES, caught, strict=True):
        row = [mistake.what, mistake.code if found else f"missed ({', '.join(sorted(found_by[mistake])) or 'silent'})"]
        row += [_cell(answers.get(mistake.what)) for answers in peers.values()]
        print("| " + " | ".join(row) + " |")
    counts = [f"{sum(caught)} of {len(MISTAKES)}"]
    counts += [f"{sum(map(bool, answers.values()))} of {len(answers)}" for answers in peers.values()]
    print("| **caught** | " + " | ".join(counts) + " |")
    print(f"\nonly that code: {sum(exact)} of {len(MISTAKES)}")
    more = {m.what: sorted(found_by[m]) for m, one in zip(MISTAKES, exact, strict=True) if not one}
    print(f"more than that: {more or 'none'}; without a mistake: { {n: sorted(c) for n, c in before.items()} }")
    return 0 if all(caught) and not before["sample"] else 1


def _cell(answer: str | None) -> str:
    return "–" if answer is None else "refused" if answer else "taken"


if __name__ == "__main__":
    sys.exit(main())
