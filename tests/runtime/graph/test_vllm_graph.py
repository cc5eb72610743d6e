"""The same graph with vLLM as its engine, in a Ray actor: rollouts, weight updates and learning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make env-vllm")
pytestmark = [pytest.mark.slow, pytest.mark.vllm]

MINI = (Path(__file__).parents[2] / "mini.rlspec").read_text()


def test_a_run_with_vllm_learns_from_its_own_samples(tmp_path: Path) -> None:
    extra = "  engine sampler : vllm { slots = 8conversations }\n  resources one : machine { workers = 1 }\n"
    spec = MINI.replace("width = 32", "width = 64").replace("  env desk", f"{extra}  env desk", 1)
    spec = spec.replace("steps = 5steps", "steps = 2steps  updates_per_step = 1")
    (tmp_path / "mini.rlspec").write_text(spec)
    command = [sys.executable, "-m", "rlspec.cli.main", "run", "mini.rlspec", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    gaps = [line["max_logprob_gap"] for line in lines if "max_logprob_gap" in line]
    assert len(gaps) == 2
    assert max(gaps) < 1e-4  # vLLM's log-probabilities are the trainer's, before and after an update
