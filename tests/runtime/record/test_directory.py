"""A run directory belongs to one plan and one process at a time, and is whole whenever the process dies."""

import errno
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from rlspec.runtime.record import durable
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.refusal import Refusal

PLAN, RESOLVED = '{"stages": []}', "rlspec = 1\n"


def create(path, digest="aa", **options):
    return RunDirectory.create(path, PLAN, digest, RESOLVED, **options)


def steps(run, count, start=0, stage="train"):
    for step in range(start, start + count):
        run.log({"stage": stage, "step": step, "reward_mean": step / 3}, {"generation_seconds": 0.5})


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def python(code, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True, **options)


def test_a_new_run_has_its_plan_and_versions(tmp_path):
    with create(tmp_path / "runs" / "a"):
        pass
    path = tmp_path / "runs" / "a"
    assert (path / "plan.json").read_text() == PLAN
    assert (path / "resolved.rlspec").read_text() == RESOLVED
    made_with = json.loads((path / "versions.json").read_text())["created"]
    assert made_with["packages"]["torch"]
    assert made_with["python"] == sys.version.split()[0]
    for folder in ("trajectories", "checkpoints", "events"):
        assert (path / folder).is_dir()


def test_the_commit_of_the_specs_repository_is_recorded(tmp_path):
    spec = tmp_path / "repo" / "a.rlspec"
    spec.parent.mkdir()
    spec.write_text(RESOLVED)
    git = ["git", "-C", str(spec.parent), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    with create(tmp_path / "clean", spec=spec) as run:
        assert run.versions()["created"]["git"] == {"commit": head, "dirty": False}
    spec.write_text("changed")
    with create(tmp_path / "dirty", spec=spec) as run:
        assert run.versions()["created"]["git"] == {"commit": head, "dirty": True}
    (spec.parent / "new.rlspec").write_text(RESOLVED)
    subprocess.run([*git, "checkout", "-q", "a.rlspec"], check=True)
    with create(tmp_path / "untracked", spec=spec.parent / "new.rlspec") as run:
        assert run.versions()["created"]["git"] == {"commit": head, "dirty": True}
    (tmp_path / "outside").mkdir()
    with create(tmp_path / "no", spec=tmp_path / "outside" / "a.rlspec") as run:
        assert run.versions()["created"]["git"] is None


def test_metrics_are_the_same_bytes_and_timings_are_kept_apart(tmp_path):
    for name in ("a", "b"):
        with create(tmp_path / name) as run:
            steps(run, 3)
    assert (tmp_path / "a/metrics.jsonl").read_bytes() == (tmp_path / "b/metrics.jsonl").read_bytes()
    timing = json.loads((tmp_path / "a/timings.jsonl").read_text().splitlines()[2])
    assert (timing["stage"], timing["step"], timing["generation_seconds"]) == ("train", 2, 0.5)


def test_a_line_needs_a_stage_and_a_step(tmp_path):
    with create(tmp_path / "a") as run, pytest.raises(KeyError):
        run.log({"stage": "train"})


def test_a_run_of_another_plan_is_refused(tmp_path):
    create(tmp_path / "a", "aa").close()
    for attempt in (create, RunDirectory.open):
        with pytest.raises(Refusal, match=r"RLC0703: .*a belongs to plan aa, not to bb .*--out"):
            attempt(tmp_path / "a", "bb")
    create(tmp_path / "a", "aa", restart=True).close()


def test_a_run_that_is_there_is_gone_on_with_or_restarted_but_never_overwritten_by_chance(tmp_path):
    with create(tmp_path / "a") as run:
        steps(run, 2)
        run.finish({})
    with pytest.raises(Refusal, match=r"RLC0702: .* holds a run of this plan already .*--resume"):
        create(tmp_path / "a")
    with RunDirectory.open(tmp_path / "a", "aa") as run:
        assert len(run.metrics.read()) == 2
    with create(tmp_path / "a", restart=True) as run:
        assert run.metrics.read() == []
        assert run.report() is None


def test_a_directory_of_somebody_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for restart in (False, True):
        with pytest.raises(Refusal, match=r"RLC0702: .*it has thesis\.tex"):
            create(tmp_path, restart=restart)
    assert names(tmp_path) == ["thesis.tex"]


def test_what_people_put_beside_a_run_survives_a_restart(tmp_path):
    create(tmp_path / "a").close()
    (tmp_path / "a" / "notes.txt").write_text("seed 3 looks odd")
    create(tmp_path / "a", restart=True).close()
    assert (tmp_path / "a" / "notes.txt").exists()


def test_there_must_be_a_run_to_open(tmp_path):
    for resume in (False, True):
        with pytest.raises(Refusal, match="RLC0705"):
            RunDirectory.open(tmp_path / "none", None, resume)
    assert names(tmp_path) == []


def test_a_plan_that_was_changed_afterwards_is_refused(tmp_path):
    create(tmp_path / "a").close()
    (tmp_path / "a/plan.json").write_text(PLAN + " ")
    with pytest.raises(Refusal, match=r"RLC0706: .*plan\.json is not the file that the run was started with"):
        RunDirectory.open(tmp_path / "a", "aa")


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00\x01"])
def test_damaged_versions_are_refused(tmp_path, content):
    create(tmp_path / "a").close()
    (tmp_path / "a/versions.json").write_text(content)
    with pytest.raises(Refusal, match=r"RLC0706: .*versions\.json is damaged"):
        RunDirectory.open(tmp_path / "a", "aa")


HOLDER = """
import sys, time
from pathlib import Path
from rlspec.runtime.record.directory import RunDirectory
run = RunDirectory.open(Path(sys.argv[1]), "aa")
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path):
    create(tmp_path / "a").close()
    with python(HOLDER, tmp_path / "a", stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            for attempt in (create, RunDirectory.open):
                with pytest.raises(Refusal, match=f"RLC0704: process {process.pid} on .* is using"):
                    attempt(tmp_path / "a", "aa")
            RunDirectory.open(tmp_path / "a", "aa", resume=False).close()
        finally:
            process.send_signal(signal.SIGKILL)
    RunDirectory.open(tmp_path / "a", "aa").close()


def test_a_second_run_in_the_same_process_is_refused_and_does_not_loosen_the_lock(tmp_path):
    with create(tmp_path / "a"):
        for _ in range(2):
            with pytest.raises(Refusal, match="RLC0704: this process is using"):
                RunDirectory.open(tmp_path / "a", "aa")
        with python(HOLDER, tmp_path / "a", stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert "RLC0704" in process.stderr.read()


FORKER = """
import os, sys, time
from pathlib import Path
from rlspec.runtime.record.directory import RunDirectory
run = RunDirectory.open(Path(sys.argv[1]), "aa")
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""


def test_a_forked_child_that_outlives_the_run_does_not_hold_the_lock(tmp_path):
    create(tmp_path / "a").close()
    with python(FORKER, tmp_path / "a", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            RunDirectory.open(tmp_path / "a", "aa").close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_file_where_a_directory_should_be_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(Refusal, match=r"RLC0702: .* cannot be written: (File exists|Not a directory); .* free"):
            create(place)
    assert names(tmp_path) == ["file"]


def test_a_directory_on_a_read_only_file_system_is_refused():
    with pytest.raises(Refusal, match="RLC0702") as caught:
        create(durable.Path("/proc/self/run"))
    assert caught.value.cure


@pytest.mark.parametrize(("number", "text"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only")])
@pytest.mark.parametrize("allowed", range(0, 14, 2))
def test_a_disk_that_fails_while_a_run_is_made_leaves_nothing(tmp_path, monkeypatch, number, text, allowed):
    calls = itertools.count(1)

    def failing(real):
        def call(*arguments, **options):
            if next(calls) > allowed:
                raise OSError(number, os.strerror(number))
            return real(*arguments, **options)

        return call

    for name in ("write", "mkdir", "fsync", "replace"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    with pytest.raises(Refusal, match=f"RLC0702: .*{text}"):
        create(tmp_path / "runs" / "a")
    monkeypatch.undo()
    assert names(tmp_path) == []
    create(tmp_path / "runs" / "a").close()


LIMITED = """
import resource, sys
from pathlib import Path
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.refusal import Refusal
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    RunDirectory.create(Path(sys.argv[1]), "{}", "aa", "x" * 5000)
except Refusal as refusal:
    print(refusal.code, refusal.cure)
"""


def test_a_file_that_does_not_fit_leaves_nothing(tmp_path):
    with python(LIMITED, tmp_path / "a", 3000, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read().startswith("RLC0702 free some space")
    assert names(tmp_path) == []


def test_torn_lines_and_leftovers_are_cleared_away_on_resume_but_not_by_a_reader(tmp_path):
    with create(tmp_path / "a") as run:
        steps(run, 2)
    with open(tmp_path / "a/metrics.jsonl", "ab") as file:
        file.write(b'{"stage": "train", "st')
    leftover = tmp_path / "a/trajectories/train-000002.parquet.tmp-999999999"
    leftover.write_bytes(b"PAR1")
    with RunDirectory.open(tmp_path / "a", "aa", resume=False) as run:
        assert [line["step"] for line in run.metrics.read()] == [0, 1]
    assert leftover.exists()
    with RunDirectory.open(tmp_path / "a", "aa"):
        pass
    assert (tmp_path / "a/metrics.jsonl").read_bytes().count(b"\n") == 2
    assert (tmp_path / "a/metrics.jsonl").read_bytes().endswith(b"}\n")
    assert not leftover.exists()


def test_restore_brings_everything_back_to_the_newest_checkpoint(tmp_path, trajectory):
    with create(tmp_path / "a") as run:
        for step in range(5):
            run.write_trajectories("train", step, [trajectory(step=step)])
            steps(run, 1, step)
            if step == 2:
                run.save_checkpoint("train-2", {}, {"step": 2})
                metrics = (tmp_path / "a/metrics.jsonl").read_bytes()
        run.finish({"success": 1.0})
    with RunDirectory.open(tmp_path / "a", "aa") as run:
        loaded = run.restore()
        assert (loaded.name, loaded.state) == ("train-2", {"step": 2})
        assert (tmp_path / "a/metrics.jsonl").read_bytes() == metrics
        assert [line["step"] for line in run.timings.read()] == [0, 1, 2]
        assert run.steps() == [("train", 0), ("train", 1), ("train", 2)]
        assert run.report() is None
        assert len(names(tmp_path / "a/events")) == 1


def test_restore_without_a_checkpoint_starts_from_nothing(tmp_path, trajectory):
    with create(tmp_path / "a") as run:
        run.write_trajectories("train", 0, [trajectory()])
        steps(run, 1)
    with RunDirectory.open(tmp_path / "a", "aa") as run:
        assert run.restore() is None
        assert run.metrics.read() == []
        assert run.steps() == []


def test_restore_is_refused_when_the_files_are_not_those_of_the_checkpoint(tmp_path, trajectory):
    with create(tmp_path / "a") as run:
        run.write_trajectories("train", 0, [trajectory()])
        steps(run, 2)
        run.save_checkpoint("x", {}, {})
    lines = (tmp_path / "a/metrics.jsonl").read_bytes()
    (tmp_path / "a/metrics.jsonl").write_bytes(lines.splitlines(keepends=True)[0])
    with RunDirectory.open(tmp_path / "a", "aa") as run:
        with pytest.raises(Refusal, match="RLC0706: the first 2 lines"):
            run.restore()
        (tmp_path / "a/metrics.jsonl").write_bytes(lines)
        (tmp_path / "a/trajectories/train-000000.parquet").unlink()
        with pytest.raises(Refusal, match=r"RLC0706: .*train-000000\.parquet"):
            run.restore()


def test_truncate_after_keeps_up_to_the_last_line_of_a_step(tmp_path, trajectory):
    with create(tmp_path / "a") as run:
        for stage, step in (
            ("coldstart", 0),
            ("train", 0),
            ("train", 1),
            ("held_out", 1),
            ("train", 2),
            ("held_out", 2),
        ):
            run.write_trajectories(stage, step, [trajectory()])
            steps(run, 1, step, stage)
        run.write_trajectories("train", 3, [trajectory()])
        run.write_trajectories("notes", 9, [trajectory()])
        run.truncate_after("train", 1)
        places = [("coldstart", 0), ("train", 0), ("train", 1)]
        assert [(line["stage"], line["step"]) for line in run.metrics.read()] == places
        assert [(line["stage"], line["step"]) for line in run.timings.read()] == places
        assert run.steps() == [*places, ("notes", 9)]
        with pytest.raises(Refusal, match=r"RLC0705: .*has no line of step 7 of stage train"):
            run.truncate_after("train", 7)


def test_what_changed_between_start_and_resume_is_told(tmp_path, monkeypatch):
    from rlspec.runtime.record import versions

    create(tmp_path / "a").close()
    now = versions.collect()
    monkeypatch.setattr(versions, "collect", lambda spec=None: now | {"python": "3.99.0"})
    with RunDirectory.open(tmp_path / "a", "aa") as run:
        assert run.differences() == [f"python {now['python']} then, 3.99.0 now"]


def test_a_report_is_json_even_with_numbers_that_are_none(tmp_path):
    with create(tmp_path / "a") as run:
        run.finish({"loss": float("nan"), "success": 0.5})
        assert run.report() == {"loss": "nan", "success": 0.5}


def test_the_first_error_is_told_and_not_what_it_made_of_closing(tmp_path, monkeypatch):
    def failing():
        raise Refusal("RLC0702", "the disk is full")

    monkeypatch.setattr("rlspec.runtime.record.events.Events.close", lambda self: failing())
    with pytest.raises(KeyError), create(tmp_path / "a") as run:
        run.log({})
    with pytest.raises(Refusal, match="the disk is full"):
        RunDirectory.open(tmp_path / "a", "aa").close()
    monkeypatch.undo()
    RunDirectory.open(tmp_path / "a", "aa").close()


RUNNER = """
import sys
from pathlib import Path
import numpy as np
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory

path, last = Path(sys.argv[1]), int(sys.argv[2])
weights, start = np.zeros(500), 0
if (path / "versions.json").exists():
    run = RunDirectory.open(path, "aa")
    loaded = run.restore()
    if loaded is not None:
        weights, start = loaded.tensors["w"], loaded.state["next"]
else:
    run = RunDirectory.create(path, "{}", "aa", "")
run.events.add = lambda *arguments, **options: None  # without tensorboardX's seconds of import
for step in range(start, last):
    weights = weights * 0.9 + np.sin(np.arange(500) * step)
    ledger = Ledger()
    ledger.append("agent", [step] * 200, [float(weights[1])] * 200, step)
    run.write_trajectories("train", step, [Trajectory(f"train/{step}/0/0", "e", "t", 0, ledger, [])])
    run.log({"stage": "train", "step": step, "norm": float(weights @ weights)})
    if step % 3 == 2:
        run.save_checkpoint(f"train-{step}", {"w": weights}, {"next": step + 1})
    print(step, flush=True)
run.save_checkpoint("end", {"w": weights}, {"next": last})
run.finish({"norm": float(weights @ weights)})
"""


def test_a_run_killed_at_random_moments_and_resumed_leaves_the_bytes_of_one_that_was_not(tmp_path):
    random.seed(3)
    python(RUNNER, tmp_path / "straight", 20, stdout=subprocess.DEVNULL).wait()
    for _ in range(3):
        with python(RUNNER, tmp_path / "killed", 20, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(random.randrange(8)):
                process.stdout.readline()
            time.sleep(random.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
    assert python(RUNNER, tmp_path / "killed", 20, stdout=subprocess.DEVNULL).wait() == 0
    for pattern in ("metrics.jsonl", "report.json", "trajectories/*", "checkpoints/*/arrays-*"):
        straight = {path.name: path.read_bytes() for path in (tmp_path / "straight").glob(pattern)}
        killed = {path.name: path.read_bytes() for path in (tmp_path / "killed").glob(pattern)}
        assert straight == killed
        assert straight
    assert not list((tmp_path / "killed").rglob("*.tmp-*"))
