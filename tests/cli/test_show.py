"""`rlc show` tells what a run learned, from the files that the run left."""

import json
import math
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rlspec.cli.show import show
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Message

PLAN = {
    "name": "desk",
    "sources": [
        {
            "env": "desk",
            "reward": "R",
            "advantage": "A",
            "terms": [{"output": "R_term1", "text": "outcome"}, {"output": "R_term2", "text": "- 0.1 * slips"}],
        }
    ],
}


def talk(key: str, group: int, good: bool, scored: bool = True, failure: str | None = None) -> Trajectory:
    """Two turns: a question, then a call that works or does not."""
    ledger = Ledger()
    ledger.append("user", [1, 2, 3])
    ledger.append("agent", [4, 5], [-0.5, -1.5], version=7)
    ledger.append("user", [6])
    ledger.append("agent", [8, 9, 10], [-0.1, -0.1, -0.1], version=7)
    status = "ok" if good else "error"
    dialogue = [
        Message("user", "hi , please cancel #W12"),
        Message("agent", "shall i cancel #W12 ?"),
        Message("user", "yes"),
        Message("agent", "", Call("cancel_order", {"order_id": "#W12"}), status, good),
        Message("tool", "done" if good else "error : not pending", status=status, wrote=good),
    ]
    measures = {"desk.verified": int(good), "turns.score": [1, 1 if good else -1]}
    scores = {"R": 1.0 if good else -0.1, "R_term1": float(good), "R_term2": 0.0 if good else -0.1, "A": 0.7071}
    out = Trajectory(key, "desk", f"desk-{group}", group, ledger, dialogue, measures, scores if scored else {})
    if failure:
        out.measures, out.scores, out.finish, out.failure = {}, {}, "failed", failure
    return out


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A finished run: cold start, an evaluation, twelve steps of training, an evaluation."""
    path = tmp_path_factory.mktemp("runs") / "desk-0011aabb"
    with RunDirectory.create(path, json.dumps(PLAN), "g1:0011aabb", "rlspec = 1\n") as run:
        run.events.add = lambda *arguments, **options: None  # TensorBoard is not what is tested here
        run.log({"stage": "coldstart", "step": 0, "loss": 2.0})
        for number, (about, success) in enumerate((("coldstart", 0.25), ("train", 0.8125))):
            if about == "train":
                for step in range(12):
                    rollouts = [talk(f"train/{step}/0/{r}", 0, good=r % 2 == 1) for r in range(3)]
                    rollouts.append(talk(f"train/{step}/0/3", 0, False, failure="user: timed out"))
                    run.write_trajectories("train", step, rollouts)
                    run.log({"stage": "train", "step": step, "reward": step / 12, "success": step / 11, "kl": 1e-5})
            trials = [talk(f"held_out/desk/0/{r}", 0, good=r < 1 + 2 * number, scored=False) for r in range(4)]
            run.write_trajectories("held_out", number, trials)
            line = {"stage": "held_out", "step": number, "kind": "evaluation", "after": about, "success": success}
            run.log(line | {"pass^1": success, "pass^2": success**2, "pass^10": 0.0})
        run.finish({})
    return path


def shown(*arguments, code=0):
    result = CliRunner().invoke(show, [str(a) for a in arguments], catch_exceptions=True)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.output


def refusal(*arguments) -> Refusal:
    result = CliRunner().invoke(show, [str(a) for a in arguments])
    assert isinstance(result.exception, Refusal), result.output
    return result.exception


def cells(text, first):
    """The words of the line that begins so."""
    return next(line.split() for line in text.splitlines() if line.startswith(first))


def test_the_overview_has_first_middle_and_last_figures(recorded):
    text = shown(recorded)
    assert "(finished)" in text
    assert "train: 12 steps" in text
    assert cells(text, "metric") == ["metric", "step", "0", "step", "5", "step", "11"]
    assert cells(text, "reward ") == ["reward", "0", "0.4167", "0.9167"]
    assert cells(text, "kl") == ["kl", "1e-05", "1e-05", "1e-05"]


def test_the_overview_has_evaluations_before_and_after(recorded):
    text = shown(recorded)
    assert cells(text, "evaluation ") == ["evaluation", "step", "success", "pass^1", "pass^2", "pass^10"]
    assert cells(text, "held_out after coldstart")[3:] == ["0", "0.25", "0.25", "0.0625", "0"]
    assert cells(text, "held_out after train")[3:] == ["1", "0.8125", "0.8125", "0.6602", "0"]
    assert cells(text, "  change") == ["change", "+0.5625", "+0.5625", "+0.5977", "+0"]


def test_the_overview_draws_a_curve_in_plain_characters_when_it_is_no_terminal(recorded):
    text = shown(recorded)
    curve = text[text.index("success over train") : text.index("trajectories")].splitlines()[1:]
    assert curve[0] == "1 |           #"
    assert curve[7] == "0 |############"
    assert text.isascii()
    assert "\x1b" not in text


def test_the_overview_ends_with_a_good_and_a_bad_conversation_of_the_last_step(recorded):
    text = shown(recorded)
    assert "train: steps 0-11" in text
    assert "held_out: steps 0-1" in text
    good, bad = text.index("good (train, step 11)"), text.index("bad (train, step 11)")
    assert "train/11/0/1  task desk-0" in text[good:bad]
    assert "train/11/0/0  task desk-0" in text[bad:]


def test_a_conversation_is_printed_turn_by_turn_with_its_signals_and_reward(recorded):
    lines = [line.strip() for line in shown(recorded, "train/3/0/1").splitlines()]
    assert lines == [
        "train/3/0/1  task desk-0  2 turns, 9 tokens (5 the agent's)  ended: user_done",
        "user: hi , please cancel #W12",
        "0 agent: shall i cancel #W12 ?",
        "turns.score 1; 2 tokens of weights 7, mean log p -1",
        "user: yes",
        '1 agent: -> cancel_order({"order_id": "#W12"})',
        "turns.score 1; 3 tokens of weights 7, mean log p -0.1",
        "tool [ok, wrote]: done",
        "signal desk.verified = 1",
        "reward R = 1",
        "1  outcome",
        "0  - 0.1 * slips",
        "advantage A = 0.7071",
    ]


def test_a_failed_conversation_says_who_failed(recorded):
    assert "counts nowhere: user: timed out" in shown(recorded, "train/3/0/3")


def test_a_key_of_an_evaluation_is_of_the_latest_unless_a_step_is_given(recorded):
    assert json.loads(shown(recorded, "held_out/desk/0/2", "--json"))["file"] == ["held_out", 1]
    assert "desk.verified = 1" in shown(recorded, "held_out/desk/0/2")
    assert "desk.verified = 0" in shown(recorded, "held_out/desk/0/2", "--step", 0)


def test_a_step_lists_its_trajectories(recorded):
    text = shown(recorded, "--stage", "train", "--step", "4")
    assert cells(text, "train/4/0/1") == ["train/4/0/1", "desk-0", "2", "9", "1", "user_done"]
    assert cells(text, "train/4/0/3") == ["train/4/0/3", "desk-0", "2", "9", "-", "failed"]


def test_a_stage_alone(recorded):
    text = shown(recorded, "--stage", "held_out")
    assert "held_out: 2 steps" in text
    assert "good (held_out, step 1)" in text
    text = shown(recorded, "--stage", "coldstart")
    assert cells(text, "loss") == ["loss", "2"]
    assert "good" not in text


def test_json_has_it_all(recorded):
    found = json.loads(shown(recorded, "--json"))
    assert found["metrics"]["reward"][11] == 11 / 12
    assert [e["when"] for e in found["evaluations"]] == ["after coldstart", "after train"]
    assert found["kept"] == {"train": list(range(12)), "held_out": [0, 1]}
    view = json.loads(shown(recorded, "train/3/0/0", "--json"))
    assert view["reward"] == {
        "name": "R",
        "value": -0.1,
        "terms": [{"text": "outcome", "value": 0.0}, {"text": "- 0.1 * slips", "value": -0.1}],
    }
    assert view["messages"][3]["signals"] == {"turns.score": -1}


def test_what_is_not_there_is_refused_with_what_is(recorded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(tmp_path / "none").code == "RLC0705"
    assert refusal(tmp_path).code == "RLC0705"
    assert "train/3/0/" in refusal(recorded, "train/3/0/9").cure
    assert refusal(recorded, "rain/3/0/1").cure == "trajectories are kept of held_out, train"
    assert refusal(recorded, "train/3/0/1", "--step", 99).code == "RLC0705"
    assert refusal(recorded, "train/3/0/1", "--stage", "held_out").code == "RLC0705"
    assert refusal(recorded, "--stage", "trian").cure == "its stages so far are coldstart, held_out, train"
    assert refusal(recorded, "--step", "77").code == "RLC0705"


def test_a_run_is_found_by_its_name_and_near_names_are_told(recorded, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / recorded.name).symlink_to(recorded)
    monkeypatch.chdir(tmp_path)
    assert "(finished)" in shown("desk-0011aabb")
    assert refusal("desk-0011aabc").cure == "there are desk-0011aabb"


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("plan.json", lambda data: data[:-1]),
        ("versions.json", lambda data: b""),
        ("metrics.jsonl", lambda data: data.replace(b"{", b"[", 1)),
        ("trajectories/train-000000.parquet", lambda data: data[:-9]),
        ("report.json", lambda data: b"\xff"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, name, harm):
    with RunDirectory.create(tmp_path / "a", json.dumps(PLAN), "g1:00", "") as run:
        run.events.add = lambda *arguments, **options: None
        run.write_trajectories("train", 0, [talk("train/0/0/0", 0, True)])
        for step in range(2):
            run.log({"stage": "train", "step": step, "success": 0.5})
        run.finish({})
    file = tmp_path / "a" / name
    file.write_bytes(harm(file.read_bytes()))
    found = refusal(tmp_path / "a")
    assert found.code == "RLC0706"
    assert name in found.reason


def test_a_run_that_has_recorded_nothing_yet_is_shown(tmp_path):
    RunDirectory.create(tmp_path / "a", json.dumps(PLAN), "g1:00", "").close()
    text = shown(tmp_path / "a")
    assert "not finished; go on with --resume" in text
    assert "no trajectories are kept yet" in text


def test_a_run_with_figures_that_are_none_is_shown(tmp_path):
    with RunDirectory.create(tmp_path / "a", json.dumps(PLAN), "g1:00", "") as run:
        run.events.add = lambda *arguments, **options: None
        for step, value in enumerate((math.nan, 0.5, math.inf, 0.25)):
            run.log({"stage": "train", "step": step, "success": value} | ({"late": 1} if step > 1 else {}))
    text = shown(tmp_path / "a")
    assert cells(text, "success ") == ["success", "nan", "0.5", "0.25"]
    assert cells(text, "late") == ["late", "-", "-", "1"]


def test_what_a_policy_wrote_cannot_steer_the_terminal_or_the_markup(tmp_path):
    wild = talk("train/0/0/0", 0, True)
    wild.dialogue.append(Message("agent", "\x1b[2J[red]gone[/red] \u202e \ud800 é", malformed="[/]"))
    with RunDirectory.create(tmp_path / "a", json.dumps(PLAN), "g1:00", "") as run:
        run.write_trajectories("train", 0, [wild])
    text = shown(tmp_path / "a", "train/0/0/0")
    assert r"\x1b[2J[red]gone[/red] \x202e \xd800 é -> a call that cannot be read: [/]" in text


def test_help_and_the_module_import_nothing_heavy():
    code = (
        "import sys, rlspec.cli.show\n"
        "heavy = {'torch', 'ray', 'numba', 'numpy', 'pyarrow', 'rich', 'transformers'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_showing_a_run_imports_neither_torch_nor_ray_nor_numba(recorded):
    code = (
        "import sys\nfrom rlspec.cli.show import show\n"
        f"show([{str(recorded)!r}, 'train/3/0/1'], standalone_mode=False)\n"
        "heavy = {'torch', 'ray', 'numba', 'transformers'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
