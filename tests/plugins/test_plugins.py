"""Plugins: checked and compiled by their schema alone, run by their code; secrets by their names alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checking import plan_of
from rlspec.compiler.check import check
from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side, graph_digest, side_of
from rlspec.compiler.form import form_of
from rlspec.compiler.resolved import resolved_text, schema_file
from rlspec.compiler.stored import read_plan
from rlspec.dsl.diagnostics import Source
from rlspec.dsl.parser import read
from rlspec.runtime.launch import launch
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.registry import runnable

MINI = (Path(__file__).parents[1] / "mini.rlspec").read_text()
JUDGE = 'judge turns : gym.short { on = [desk]  rubric = house  api_key = secret("GYM_KEY")  on_failure = [drop] }'
RUBRIC = "rubric house : gym.length { longest = 30characters }"
KEY = "sk-2f9c-do-not-show-me"


def spec(folder: Path, judge: str = JUDGE, use: str = 'use gym = plugin("tiny-gym")', rubric: str = RUBRIC) -> Path:
    text = MINI.replace("judge turns : oracle { on = [desk]  flip = 30% }", f"{rubric}\n  {judge}")
    assert text != MINI
    path = folder / "spec.rlspec"
    path.write_text(text.replace("rlspec = 1\n", f"rlspec = 1\n{use}\n", 1))
    return path


def codes(path: Path) -> list[str]:
    return [d.code for d in check(read(path)).errors]


def test_checking_and_compiling_import_nothing_of_the_plugin(installed: Path, tmp_path: Path) -> None:
    plan = plan_of(check(read(spec(tmp_path))))
    assert "tiny_gym" not in sys.modules
    judge = plan.labelled("turns")
    assert judge.name == "tiny_gym.short"
    assert judge.fields == {"rubric": "house", "api_key": {"secret": "GYM_KEY"}, "fails": 0.0, "mode": "mild",
                            "words": ["please"], "retry": {"times": 2}}  # fmt: skip
    assert [(p.kind, p.label) for p in plan.parts] == [("rubric", "house")]
    assert [(p.name, p.origin) for p in plan.plugins] == [("tiny_gym", "tiny-gym 0.1.0")]


@pytest.mark.parametrize(
    ("judge", "code"),
    [
        (JUDGE.replace("rubric =", "rubrik ="), "RLC0104"),
        (JUDGE.replace("rubric = house", "rubric = hause"), "RLC0101"),
        (JUDGE.replace("gym.short", "gym.shrot"), "RLC0103"),
        (JUDGE.replace("gym.short", "gim.short"), "RLC0103"),
        (JUDGE.replace("[drop]", "[drop]  fails = 2"), "RLC0401"),
        (JUDGE.replace("[drop]", "[drop]  retry.times = 2turns"), "RLC0305"),
        (JUDGE.replace("[drop]", "[drop]  mode = wild"), "RLC0202"),
        (JUDGE.replace('api_key = secret("GYM_KEY")', ""), "RLC0203"),
        (JUDGE.replace('secret("GYM_KEY")', f'"{KEY}"'), "RLC0208"),
        (JUDGE.replace('"GYM_KEY"', f'"{KEY}"'), "RLC0208"),
        (JUDGE.replace("[drop]", '[drop]  words = [secret("GYM_KEY")]'), "RLC0208"),
    ],
)
def test_mistakes_are_those_of_any_component(installed: Path, tmp_path: Path, judge: str, code: str) -> None:
    assert code in codes(spec(tmp_path, judge))


def test_a_secret_is_not_repeated_by_the_message(installed: Path, tmp_path: Path) -> None:
    found = check(read(spec(tmp_path, JUDGE.replace('secret("GYM_KEY")', f'"{KEY}"'))))
    assert found.errors
    assert all(KEY not in d.message + d.label + "".join(d.notes) for d in found.errors)


def test_what_is_not_used_is_not_known(installed: Path, tmp_path: Path) -> None:
    plan_of(check(read(spec(tmp_path))))  # in this process the catalog has it now
    assert codes(spec(tmp_path, use=""))[:2] == ["RLC0103", "RLC0103"]


def test_a_missing_plugin_has_a_near_name(installed: Path, tmp_path: Path) -> None:
    found = check(read(spec(tmp_path, use='use gym = plugin("tiny-gim")')))
    first = next(d for d in found.errors if d.code == "RLC0602")
    assert first.label == "did you mean `tiny-gym`?"


def schema_beside(folder: Path, change: tuple[str, str] = ("", "")) -> Path:
    text = (Path(__file__).parent / "tiny_gym" / "plugin.json").read_text()
    (folder / "gym.json").write_text(text.replace(*change) if change[0] else text)
    return spec(folder, use='use gym = plugin("gym.json")')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"int in [0, 9]"', '"integer"'), "no type"),
        (('"default": 40', '"default": 0'), "its default"),
        (('"doc": "of a good turn"', '"dok": "of a good turn"'), "dok"),
        (('"format": "rlspec.plugin/1"', '"format": "rlspec.plugin/2"'), "format"),
        (('"kind": "rubric"', '"kind": "reward"'), "a word of the language"),
        (('"name": "length"', '"name": "le ngth"'), "components.1.name"),
        (("{", "{{"), "no JSON"),
    ],
)
def test_a_wrong_schema_is_told_with_its_place(
    installed: Path, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    errors = check(read(schema_beside(tmp_path, change))).errors
    assert errors[0].code == "RLC0603"
    assert said in errors[0].message


def test_digests_move_when_the_schema_does_and_not_with_its_words(installed: Path, tmp_path: Path) -> None:
    def digests(change: tuple[str, str] = ("", "")) -> tuple[str, str, str]:
        plan = plan_of(check(read(schema_beside(tmp_path, change))))
        return plan.digest, form_of(plan).digest, graph_digest(plan)

    before = digests()
    assert digests(("that count", "that are counted")) == before
    after = digests(('"real in [0, 1]"', '"real in [0, 0.5]"'))
    assert all(a != b for a, b in zip(before, after, strict=True))


def test_a_diff_of_two_schemas_is_verified(installed: Path, tmp_path: Path) -> None:
    one = side_of(read(schema_beside(tmp_path)), "one")
    other = side_of(read(schema_beside(tmp_path, ('"default": 2', '"default": 3'))), "other")
    found = difference(one, other)
    assert found.verified
    assert KEY not in str(found)


def test_a_plan_is_read_where_the_plugin_is_unknown(installed: Path, tmp_path: Path) -> None:
    plan = plan_of(check(read(spec(tmp_path))))
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json())
    code = (
        "import sys; from pathlib import Path; from rlspec.compiler.stored import read_plan\n"
        f"plan = read_plan(Path({str(path)!r}))\n"
        "print(plan.digest, plan.labelled('turns').component().retry.times, 'tiny_gym' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [plan.digest, "2", "False"], done.stderr
    body = json.loads(path.read_text())
    body["plugins"][0]["document"]["components"][1]["fields"]["longest"]["default"] = 41
    path.write_text(json.dumps(body))
    with pytest.raises(Exception, match="RLC0707"):
        read_plan(path)


def test_the_resolved_spec_is_read_beside_the_schema(installed: Path, tmp_path: Path) -> None:
    found = check(read(spec(tmp_path)))
    plan = plan_of(found)
    assert found.experiment is not None
    text = resolved_text(found.experiment, plan)
    assert 'api_key = secret("GYM_KEY")' in text
    (tmp_path / schema_file(plan.plugins[0])).write_text(json.dumps(plan.plugins[0].document))
    assert plan_of(check(Source(str(tmp_path / "resolved.rlspec"), text))).digest == plan.digest


def test_an_overlay_of_the_command_line_patches_a_plugins_component(installed: Path, tmp_path: Path) -> None:
    from rlspec.compiler.compose import on_command_line

    found = check(read(spec(tmp_path)), overlays=[on_command_line("judge.turns.retry.times = 5calls")])
    assert plan_of(found).labelled("turns").fields["retry"] == {"times": 5}
    wrong = check(read(spec(tmp_path)), overlays=[on_command_line("judge.turns.retry.tmes = 5calls")])
    assert [d.code for d in wrong.errors] == ["RLC0111"]


def test_sides_of_plans_have_no_secret(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_KEY", KEY)
    plan = plan_of(check(read(spec(tmp_path))))
    assert KEY not in plan.model_dump_json()
    assert KEY not in str(Side("plan", plan).form.leaves)


# ------------------------------------------------------------------------------------------------------- running


class Watcher:
    """Keeps everything that a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, what: str, total: int | None) -> None:
        self.said.append(what)

    def line(self, metrics: Mapping[str, Any]) -> None:
        self.said.append(str(metrics))

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.slow
def test_a_run_imports_the_plugin_and_nothing_holds_its_secret(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_KEY", KEY)
    path = spec(tmp_path, JUDGE.replace("[drop]", "[drop]  fails = 30%"))
    text = path.read_text()
    train = "stage train : grpo { tasks_per_step = 2tasks  group = 4trajs  steps = 1steps  max_new_tokens = 8tokens }"
    path.write_text(f"{text[: text.index('  stage coldstart')]}  {train}\n}}\n")
    found = check(read(path))
    plan, watcher, out = plan_of(found), Watcher(), tmp_path / "out"
    assert found.experiment is not None
    launch(plan, resolved_text(found.experiment, plan), out, "local", watcher, spec=path)
    assert "tiny_gym.judges" in sys.modules
    written = [p for p in out.rglob("*") if p.is_file()]
    rows = [row for p in written if p.suffix == ".parquet" for row in pq.read_table(p).to_pylist()]
    assert any('401 for the key secret("GYM_KEY")' in str(row) for row in rows)
    assert all(KEY not in str(row) for row in (*rows, *watcher.said))
    assert [p for p in written if KEY.encode() in p.read_bytes()] == []
    assert plan_of(check(read(out / "resolved.rlspec"))).digest == plan.digest


def refused(folder: Path) -> str:
    with pytest.raises(Refusal) as refusal:
        runnable(plan_of(check(read(spec(folder)))))
    return refusal.value.code


def test_a_run_without_its_secret_is_refused_before_it_begins(installed: Path, tmp_path: Path) -> None:
    assert refused(tmp_path) == "RLC0712"


def test_a_run_without_the_plugins_code_is_refused(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_KEY", KEY)
    (installed / "tiny_gym" / "judges.py").unlink()
    assert refused(tmp_path) == "RLC0604"
