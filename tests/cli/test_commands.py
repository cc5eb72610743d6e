"""The commands as a user types them: what they print, what they import, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import HEAVY, loaded_by, rlc

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample.rlspec"


@pytest.mark.parametrize(
    "words", [["--help"], ["check", str(SAMPLE)], ["compile", str(SAMPLE)], ["explain", "RLC0301"]]
)
def test_light_commands_import_nothing_heavy(words: list[str]) -> None:
    assert not HEAVY & loaded_by(*words)


def test_help_lists_every_command() -> None:
    shown = rlc("--help").stdout
    assert all(name in shown for name in ("check", "compile", "run", "show", "explain"))


def test_check_says_ok() -> None:
    done = rlc("check", SAMPLE)
    assert (done.returncode, done.stdout.strip()) == (0, f"{SAMPLE}: ok")


def test_check_as_json_has_places(tmp_path: Path) -> None:
    spec = tmp_path / "x.rlspec"
    spec.write_text(SAMPLE.read_text().replace("layers = 3", "layerz = 3"))
    done = rlc("check", "--format", "json", spec)
    (record,) = json.loads(done.stdout)
    assert (done.returncode, record["code"], record["line"]) == (2, "RLC0104", 7)


def test_compile_prints_stages_edges_ranges_and_budget() -> None:
    shown = rlc("compile", SAMPLE).stdout
    for part in ("coldstart", "train/trainer -> train/rollout", "real@traj in [-0.1, 1.1]", "128 trajectories"):
        assert part in shown


def test_compile_emits_the_kernels_as_python() -> None:
    shown = rlc("compile", SAMPLE, "--emit", "kernels").stdout
    compile(shown, "kernels.py", "exec")
    assert "def " in shown


def test_a_compiled_plan_is_read_back(tmp_path: Path) -> None:
    done = rlc("compile", SAMPLE, "-o", tmp_path / "plan.json")
    assert done.returncode == 0
    from rlspec.compiler.stored import read_plan

    assert read_plan(tmp_path / "plan.json").name == "sample"


BAD_SPECS = {
    "empty": (b"", "RLC0002"),
    "binary": (bytes(range(256)), "RLC0001"),
    "half a spec": (SAMPLE.read_bytes()[:700], "RLC00"),
    "no env": (SAMPLE.read_bytes().replace(b"  env desk", b"  # env desk"), "RLC0502"),
    "group of one": (SAMPLE.read_bytes().replace(b"group = 8trajs", b"group = 1trajs"), "RLC0501"),
    "negative lr": (SAMPLE.read_bytes().replace(b"lr = 3e-4", b"lr = -3e-4"), "RLC0401"),
    "turn term": (SAMPLE.read_bytes().replace(b"      outcome\n", b"      outcome + verdict\n"), "RLC0301"),
}


@pytest.mark.parametrize("command", ["check", "compile", "run"])
@pytest.mark.parametrize(("content", "code"), BAD_SPECS.values(), ids=BAD_SPECS.keys())
def test_a_bad_spec_is_refused_with_a_code_and_without_a_traceback(
    command: str, content: bytes, code: str, tmp_path: Path
) -> None:
    spec = tmp_path / "bad.rlspec"
    spec.write_bytes(content)
    done = rlc(command, spec, cwd=tmp_path)
    assert done.returncode == 2
    assert code in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bad.rlspec"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["check", "nowhere.rlspec"], "RLC0701"),
        (["run", "nowhere.rlspec"], "RLC0701"),
        (["run", "nowhere.json"], "RLC0701"),
        (["show", "nowhere"], "RLC0705"),
        (["rnu", "x"], "Did you mean 'run'?"),
        (["explain", "RLC9999"], "there is no"),
        (["run", str(SAMPLE), "--set", "x"], "name=value"),
        (["run", str(SAMPLE), "--set", "x=1"], "RLC0112"),
        (["run", str(SAMPLE), "--resume", "--out", "nowhere"], "RLC0705"),
        (["run", str(SAMPLE), "--executor", "slurm"], "slurm"),
        (["run", str(ROOT / "specs" / "papers" / "tarl.rlspec")], "RLC0601"),
    ],
)
def test_bad_words_are_refused_with_status_2(words: list[str], part: str, tmp_path: Path) -> None:
    done = rlc(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_refuses_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    done = rlc("run", SAMPLE, "--out", tmp_path / "taken", "--executor", "local")
    assert done.returncode == 2
    assert "RLC0702" in done.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_run_refuses_a_directory_with_other_things_in_it(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    done = rlc("run", SAMPLE, "--out", tmp_path, "--executor", "local")
    assert done.returncode == 2
    assert "RLC0702" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
