"""The command `rlc plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from command import HEAVY, loaded_by
from rlspec.cli.compile import compile_
from rlspec.cli.plan import plan

ROOT = Path(__file__).parents[2]
TARL = str(ROOT / "specs" / "papers" / "tarl.rlspec")
QUICKSTART = str(ROOT / "examples" / "quickstart.rlspec")


def rlc(*words: str | Path) -> Result:
    return CliRunner().invoke(plan, [str(word) for word in words])


def test_planning_imports_nothing_heavy() -> None:
    assert not HEAVY & loaded_by("plan", QUICKSTART)


def test_the_page_has_all_parts() -> None:
    done = rlc(TARL)
    assert done.exit_code == 0, done.output
    for part in ("stages", "edges", "known only after", "work, at most", "calls, at most", "memory of one worker"):
        assert f"\n{part}" in done.output
    assert "512 (410 expected)" in done.output
    assert "8.19 billion parameters, 36 layers of width 4096 (the published shape of qwen3-8b)" in done.output


def test_json_and_markdown_hold_the_same_figures(tmp_path: Path) -> None:
    table = tmp_path / "prices.json"
    table.write_text('{"gpt-4.1": {"input": 2.0, "output": 8.0}}')
    body = json.loads(rlc(TARL, "--format", "json", "--prices", table).output)
    (judge,) = [c for c in body["work"][0]["calls"] if c["kind"] == "judge"]
    assert judge["number"] == 512
    assert body["unpriced"] == ["gpt-4"]
    assert body["dollars"] == pytest.approx(250 * judge["dollars"])
    page = rlc(TARL, "--format", "md", "--prices", table).output
    sizes = f"512 (410 expected) | 128,000 | 18.35 million | 524,288 | ${judge['dollars']:,.2f}"
    assert f"| train | judge turns | gpt-4.1 | {sizes} |" in page


def test_variants_settings_and_stored_plans(tmp_path: Path) -> None:
    live = json.loads(rlc(TARL, "--variant", "live_intervention", "--format", "json").output)
    behind = json.loads(rlc(f"{TARL}#live_intervention", "--format", "json").output)
    assert live == behind
    assert next(c["number"] for c in live["work"][0]["calls"] if c["kind"] == "judge") == 512 * 30
    shared = json.loads(rlc(TARL, "--set", "math_share=0.5", "--format", "json").output)
    assert next(c["expected"] for c in shared["work"][0]["calls"] if c["kind"] == "judge") == pytest.approx(256)
    stored = tmp_path / "plan.json"
    assert CliRunner().invoke(compile_, [TARL, "-o", str(stored)]).exit_code == 0
    assert rlc(stored).output == rlc(TARL).output


def test_several_files_stand_side_by_side() -> None:
    done = rlc(QUICKSTART, TARL)
    assert done.exit_code == 0, done.output
    rows = {line[:40].strip(): line[40:].split() for line in done.output.splitlines()}
    assert rows["grpo train: judge calls a step"] == ["128", "512"]
    assert rlc(QUICKSTART, f"{QUICKSTART}", "--format", "md").output.startswith("| figure | ")


def test_what_does_not_fit_ends_with_2_and_is_still_shown(tmp_path: Path) -> None:
    path = tmp_path / "small.rlspec"
    text = Path(QUICKSTART).read_text()
    path.write_text(text.replace("  env desk", "  resources r : machine { worker_memory = 100MB }\n  env desk", 1))
    done = rlc(path)
    assert done.exit_code == 2
    assert "DOES NOT FIT" in done.output
    assert "error[RLC0529]" in done.output
    wrong = CliRunner().invoke(compile_, [str(path)])
    assert [d.code for d in wrong.exception.diagnostics if d.severity == "error"] == ["RLC0529"]  # type: ignore[union-attr]


def test_a_local_model_is_looked_up_by_plan_and_compile(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 64, "hidden_size": 8192, "num_attention_heads": 64,
        "intermediate_size": 28_672, "vocab_size": 128_256,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    text = (ROOT / "tests" / "sample.rlspec").read_text()
    start = text.index("  policy ")
    end = text.index("\n", start)
    machine = "  resources r : machine { gpus_per_worker = 1  device = h200 }"
    model = f'  policy agent : hf {{ model = "{tmp_path}" }}'
    path = tmp_path / "local.rlspec"
    path.write_text(text[:start] + model + "\n" + machine + text[end:])
    assert rlc(path).exit_code == 2
    wrong = CliRunner().invoke(compile_, [str(path)])
    assert "RLC0529" in [d.code for d in wrong.exception.diagnostics]  # type: ignore[union-attr]
