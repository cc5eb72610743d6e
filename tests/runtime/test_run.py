"""Whole runs in miniature, on real Ray and in one process: same numbers, and nothing lost when they are killed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from rlspec.cli.run import run as rlc_run
from rlspec.runtime.refusal import Refusal

MINI = (Path(__file__).parents[1] / "mini.rlspec").read_text()
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "mini.rlspec"
    path.write_text(MINI)
    return path


def environment(cache: Path | None = None) -> dict[str, str]:
    return {**os.environ, **({"RLSPEC_CACHE": str(cache)} if cache else {})}


def without_cold_starts(folder: Path) -> Path:
    """A cache that has the kernels of all, and no cold start: a run with it makes its own."""
    (folder / "cache").mkdir(mode=0o700)
    (folder / "cache" / "kernels").symlink_to(Path(os.environ["RLSPEC_CACHE"]) / "kernels")
    return folder / "cache"


def start(
    spec: Path, out: Path, *words: str, cache: Path | None = None, own_group: bool = False, most: int | None = None
) -> subprocess.Popen[str]:
    """A run in the background; `most` bytes are all that any of its files may have."""
    command = [sys.executable, "-m", "rlspec.cli.main", "run", str(spec), "--out", str(out), *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(cache),
        start_new_session=own_group,
        preexec_fn=None if most is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    out, err = process.communicate(timeout=400)
    assert process.returncode == status, err[-3000:]
    assert "Traceback" not in err
    return out + err


def here(spec: Path, out: Path, *words: str) -> str:
    """The same command in this process, which has torch already; the code of its refusal, empty when it went well."""
    done = CliRunner().invoke(rlc_run, [str(spec), "--out", str(out), "--executor", "local", *words])
    if isinstance(done.exception, Refusal):
        return done.exception.code
    assert done.exception is None, done.output
    return ""


def weights(out: Path) -> dict[str, bytes]:
    newest = max((out / "checkpoints").glob("ckpt-*"))
    files = sorted(newest.glob("*.safetensors"))
    assert files
    return {name: array.tobytes() for file in files for name, array in load_file(file).items()}


@pytest.fixture(scope="module")
def straight(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed, in one process."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    finish(start(spec, out, "--executor", "local"))
    return out


def lines(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_run_records_every_stage(straight: Path) -> None:
    found = lines(straight)
    assert [(m["stage"], m["step"]) for m in found if m["stage"] == "train"] == [("train", n) for n in range(5)]
    assert [m["after"] for m in found if m.get("kind") == "evaluation"] == ["coldstart", "train"]
    assert all(0 <= float(m["success"]) <= 1 for m in found if "success" in m)  # type: ignore[arg-type]
    assert json.loads((straight / "report.json").read_text())["digest"].startswith("p1:")


def test_the_first_update_of_a_step_sees_the_samplers_own_log_probabilities(spec: Path, tmp_path: Path) -> None:
    once = tmp_path / "once.rlspec"
    once.write_text(MINI.replace("steps = 5steps", "steps = 2steps  updates_per_step = 1"))
    assert here(once, tmp_path / "run") == ""
    gaps = [float(m["max_logprob_gap"]) for m in lines(tmp_path / "run") if "max_logprob_gap" in m]  # type: ignore[arg-type]
    assert gaps
    assert max(gaps) < 1e-5


def test_trajectories_are_scored_again_to_the_same_numbers(straight: Path, spec: Path) -> None:
    from rlspec.compiler.evaluator import evaluate
    from rlspec.compiler.stored import read_plan
    from rlspec.runtime.record.batching import ragged, signal_specs
    from rlspec.runtime.record.directory import RunDirectory

    plan = read_plan(straight / "plan.json")
    stored = RunDirectory.open(straight, plan.digest, resume=False).read_trajectories("train", 3)
    batch, members = ragged(stored, signal_specs(plan.sources[0]))
    again = evaluate(plan.sources[0].program, batch)
    assert [t.scores["A"] for t in members] == pytest.approx(list(again["A"]), abs=1e-9)
    assert [t.scores["R"] for t in members] == pytest.approx(list(again["R"]), abs=1e-9)


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_the_same_seed_gives_the_same_numbers_on_every_executor(
    executor: str, spec: Path, straight: Path, tmp_path: Path
) -> None:
    finish(start(spec, tmp_path / "run", "--executor", executor, cache=tmp_path / "cache"))
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()
    assert weights(tmp_path / "run") == weights(straight)
    for file in sorted((straight / "trajectories").iterdir()):
        assert (tmp_path / "run" / "trajectories" / file.name).read_bytes() == file.read_bytes()


def test_another_seed_gives_other_numbers(spec: Path, straight: Path, tmp_path: Path) -> None:
    assert here(spec, tmp_path / "run", "--seed", "1") == ""
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() != (straight / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("after", ["policy/tokenizer.json", "coldstart", "train 1", "train 3", "held_out 1"])
def test_a_run_that_is_killed_goes_on_to_the_same_bits(after: str, spec: Path, straight: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "run", without_cold_starts(tmp_path)
    process = start(spec, out, "--executor", "local", cache=cache)
    deadline = time.monotonic() + 300
    while process.poll() is None and not _reached(out, after):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if (out / "report.json").exists():
        pytest.fail("the run was over before it was killed")
    finish(start(spec, out, "--executor", "local", "--resume", cache=cache))
    assert (out / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()
    assert weights(out) == weights(straight)


def _reached(out: Path, after: str) -> bool:
    if "/" in after:
        return (out / after).exists()
    stage, _, step = after.partition(" ")
    if not (out / "metrics.jsonl").exists():
        return False
    for text in (out / "metrics.jsonl").read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if line["stage"] == stage and (not step or line["step"] == int(step)):
            return True
    return False


def test_ctrl_c_saves_and_says_how_to_go_on(spec: Path, straight: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(spec, out, own_group=True)
    while process.poll() is None and not _reached(out, "train 0"):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group, Ray's processes as well
    said = finish(process, status=130)
    assert "--resume" in said
    finish(start(spec, out, "--executor", "local", "--resume"))
    assert (out / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()


def test_a_full_disk_ends_a_run_by_name_and_loses_nothing(spec: Path, straight: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "run", without_cold_starts(tmp_path)
    most = 400 * 1024  # more than the policy's files, less than a later checkpoint's
    said = finish(start(spec, out, "--executor", "local", cache=cache, most=most), status=2)
    assert "RLC0702" in said
    assert "File too large" in said
    finish(start(spec, out, "--executor", "local", "--resume", cache=cache))
    assert (out / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()
    assert weights(out) == weights(straight)


def test_two_runs_cannot_share_a_directory(tmp_path: Path) -> None:
    spec, out = tmp_path / "short.rlspec", tmp_path / "run"
    spec.write_text(MINI.replace("steps = 5steps", "steps = 1steps"))
    first = start(spec, out, "--executor", "local")
    while first.poll() is None and not (out / "versions.json").exists():
        time.sleep(0.02)
    assert here(spec, out, "--resume") == "RLC0704"
    finish(first)


def test_a_finished_run_is_neither_overwritten_nor_resumed(spec: Path, straight: Path) -> None:
    before = (straight / "metrics.jsonl").read_bytes()
    assert here(spec, straight) == "RLC0702"
    assert here(spec, straight, "--resume") == "RLC0705"
    assert (straight / "metrics.jsonl").read_bytes() == before


def test_another_plans_directory_is_refused(spec: Path, straight: Path) -> None:
    assert here(spec, straight, "--resume", "--set", "penalty=0.2") == "RLC0703"


def test_a_plan_file_runs_like_its_spec(spec: Path, straight: Path, tmp_path: Path) -> None:
    assert here(straight / "plan.json", tmp_path / "run") == ""
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()


def test_a_kl_in_loss_or_reward_changes_the_run(spec: Path, straight: Path, tmp_path: Path) -> None:
    def learned(out: Path) -> str:
        return str([(m["loss"], m["entropy"], m["grad_norm"]) for m in lines(out) if m["stage"] == "train"][:2])

    seen = {learned(straight)}
    for place in ("loss", "reward"):
        other = tmp_path / f"{place}.rlspec"
        other.write_text(MINI.replace("steps = 5steps", f"steps = 2steps  kl {{ coefficient = 0.5  place = {place} }}"))
        assert here(other, tmp_path / place) == ""
        seen.add(learned(tmp_path / place))
    assert len(seen) == 3
