"""How long a diff takes in process: two large specs with five edits between them.

    python bench/language/diff_time.py --leaves 1500

Prints medians: checking one spec, making its value form, and the diff of two that are read (forms, alignment, edits,
digests, verification).
"""

from __future__ import annotations

import argparse
import statistics
import time

from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side, side_of
from rlspec.compiler.form import form_of
from rlspec.dsl.diagnostics import Source

EDITS = (("lr = 1e-6", "lr = 2e-6"), ("group = 8trajs", "group = 4trajs"), ("- 5 * indicator", "- 4 * indicator"),
         ("max_turns = 31agent_turns", "max_turns = 29agent_turns"),
         ("std.grpo(R)", "std.rloo(R)"))  # fmt: skip


def spec(leaves: int) -> str:
    """A spec of at least so many leaves: a mix of as many environments as that takes."""
    count = max(2, (leaves - 40) // 15)
    share = f"{1 / count!r}"
    lines = ["rlspec = 1", "experiment large {", '  policy agent : hf { model = "m"  context = 32_768tokens }']
    for n in range(count):
        lines.append(f"  env e{n} : tau_bench {{ domain = retail  max_turns = {30 + n % 5}agent_turns }}")
    lines.append("  mix tasks { " + "  ".join(f"e{n} = {share}" for n in range(count)) + " }")
    lines += [
        '  user customer : llm { model = "gpt-4" }', '  judge turns : llm { model = "gpt-4.1" }',
        "  signal outcome : int@traj in {0, 1} = env.verified",
        "  signal verdict : int@turn in {-1, 0, 1} = turns.score",
        "  reward R : real@traj = 10 * outcome - 5 * indicator(any(verdict == -1 over turn))",
        "  advantage A : real@traj = std.grpo(R)", "  credit = agent_tokens(A)",
        "  stage train : grpo { group = 8trajs  lr = 1e-6 }", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--leaves", type=int, default=1500)
    arguments.add_argument("--repeats", type=int, default=15)
    given = arguments.parse_args()
    text = spec(given.leaves)
    other = text
    for old, new in EDITS:
        assert old in other, old
        other = other.replace(old, new, 1)
    start = time.process_time()
    a = side_of(Source("a", text))
    checked = time.process_time() - start
    b = side_of(Source("b", other))
    forms, diffs = [], []
    for _ in range(given.repeats):
        start = time.process_time()
        form_of(a.plan)
        forms.append(time.process_time() - start)
        start = time.process_time()
        found = difference(Side("a", a.plan, a.source, a.experiment), Side("b", b.plan, b.source, b.experiment))
        diffs.append(time.process_time() - start)
    leaves = len(a.form.leaves) + len(a.form.formulas)
    print(f"{leaves} leaves, {len(found.rows)} edits found, verified: {found.verified}")
    print(f"check of one spec {1e3 * checked:.0f} ms, value form {1e3 * statistics.median(forms):.1f} ms, "
          f"diff {1e3 * statistics.median(diffs):.1f} ms (CPU, medians of {given.repeats})")  # fmt: skip


if __name__ == "__main__":
    main()
