"""Counts the planted mistakes that `rlc check` names, and those that the configuration of verl and TRL refuses.

    python bench/catches/run.py                      # rlc alone
    python bench/catches/run.py --peers              # with bench/peers/.venv (bench/peers/make_env.sh makes it)

rlc counts only when the code that belongs to the mistake is among its diagnostics, and not on the sample without a
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

SAMPLE = HERE.parents[1] / "tests" / "sample.rlspec"


def planted(mistake: Mistake) -> str:
    """The sample with the mistake in it.

    Raises:
        ValueError: the sample no longer says what is to be replaced.
    """
    text = SAMPLE.read_text(encoding="utf-8")
    for old, new in mistake.edits:
        if old not in text:
            raise ValueError(f"{mistake.what}: the sample no longer says {old!r}")
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
        paths = [Path(folder) / f"{number:02}.rlspec" for number in range(len(MISTAKES) + 1)]
        for path, text in zip(paths, [*(planted(m) for m in MISTAKES), SAMPLE.read_text("utf-8")], strict=True):
            path.write_text(text, encoding="utf-8")
        codes = said(paths)
    caught = [m.code in codes[path.name] for m, path in zip(MISTAKES, paths[:-1], strict=True)]
    exact = [set(codes[path.name]) == {m.code} for m, path in zip(MISTAKES, paths[:-1], strict=True)]
    print("| mistake | rlc |" + "".join(f" {p} |" for p in peers))
    print("|---|---|" + "---|" * len(peers))
    for mistake, found, path in zip(MISTAKES, caught, paths[:-1], strict=True):
        row = [mistake.what, mistake.code if found else f"missed ({', '.join(codes[path.name]) or 'silent'})"]
        row += [_cell(answers.get(mistake.what)) for answers in peers.values()]
        print("| " + " | ".join(row) + " |")
    counts = [f"{sum(caught)} of {len(MISTAKES)}"]
    counts += [f"{sum(map(bool, answers.values()))} of {len(answers)}" for answers in peers.values()]
    print("| **caught** | " + " | ".join(counts) + " |")
    print(f"\nonly that code: {sum(exact)} of {len(MISTAKES)}; without a mistake: {codes[paths[-1].name] or 'silent'}")
    return 0 if all(caught) and not codes[paths[-1].name] else 1


def _cell(answer: str | None) -> str:
    return "–" if answer is None else "refused" if answer else "taken"


if __name__ == "__main__":
    sys.exit(main())
