"""`rlc check` for machines: JSON, SARIF and GitHub forms; and `--fix`, which cures or leaves a file alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlspec.cli.check import check
from rlspec.dsl.codes import CODES
from rlspec.dsl.fixes import applied, slip

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
SLIPS = {
    "layers = 3": "layerz = 3",
    "env.verified": "env.verifed",
    "env desk : shop": "env desk : shpo",
    "split = test": "split = tset",
    "std.grpo(R)": "std.grppo(R)",
    "num(turn)": "num(turm)",
    "serves = [desk]": "serves = [dsek]",
    "reward R : real": "reward R : reel",
    "over turn where": "ovr turn where",
    "user customer": "usre customer",
}


def written(folder: Path, *edits: tuple[str, str]) -> Path:
    text = SAMPLE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "bad spec.rlspec"
    path.write_text(text)
    return path


def ran(*words: str | Path) -> Result:
    return CliRunner().invoke(check, [str(w) for w in words], catch_exceptions=True)


# ---------------------------------------------------------------------------------------------------------- forms


def test_sarif_names_rules_places_and_fixes(tmp_path: Path) -> None:
    path = written(tmp_path, ("layers = 3", "layerz = 3"), ("group = 8trajs", "group = 1trajs"))
    done = ran("--format", "sarif", path)
    assert done.exit_code == 2
    log = json.loads(done.stdout)
    assert (log["version"], log["$schema"].endswith("sarif-2.1.0.json")) == ("2.1.0", True)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == ["RLC0104", "RLC0501"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        location = result["locations"][0]["physicalLocation"]
        assert location["artifactLocation"]["uri"].endswith("bad%20spec.rlspec")
        assert 1 <= location["region"]["startLine"] <= location["region"]["endLine"]
    (edit,) = run["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"]
    at, length = edit["deletedRegion"]["charOffset"], edit["deletedRegion"]["charLength"]
    assert (path.read_text()[at : at + length], edit["insertedContent"]["text"]) == ("layerz", "layers")


def test_sarif_of_a_sound_file_is_a_run_without_results(tmp_path: Path) -> None:
    done = ran("--format", "sarif", written(tmp_path))
    assert (done.exit_code, json.loads(done.stdout)["runs"][0]["results"]) == (0, [])


def test_sarif_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    done = ran("--format", "sarif", tmp_path / "nowhere.rlspec")
    assert (done.exit_code, json.loads(done.stdout)["runs"][0]["results"][0]["ruleId"]) == (2, "RLC0701")


def test_github_annotates_lines_and_escapes(tmp_path: Path) -> None:
    path = written(tmp_path, ("reveal = 35%", "reveal = 135%"), ("group = 8trajs", "group = 2trajs"))
    (line,) = ran("--format", "github", path).stdout.splitlines()
    assert line.startswith("::error file=")
    assert ",title=RLC0401,line=10,endLine=10,col=" in line
    text = written(tmp_path, ("layers = 3", "layerz = 3"))
    message = ran("--format", "github", text).stdout.strip().split("::", 2)[2]
    assert "%0Adid you mean `layers`?" in message


@pytest.mark.parametrize(("severity", "edit"), [("warning", ("group = 8", "group = 2")),
                                                ("notice", ("[coldstart, train]", "[train]"))])  # fmt: skip
def test_github_tells_warnings_from_notes(severity: str, edit: tuple[str, str], tmp_path: Path) -> None:
    done = ran("--format", "github", written(tmp_path, edit))
    assert (done.exit_code, done.stdout.split(" ")[0]) == (0, f"::{severity}")


def test_the_text_counts_by_severity(tmp_path: Path) -> None:
    path = written(tmp_path, ("group = 8", "group = 2"), ("[coldstart, train]", "[train]"))
    assert ran(path).stdout.strip() == f"{path}: ok, 1 warning, 1 note"


# --------------------------------------------------------------------------------------------------------- fixing


@pytest.mark.parametrize(("right", "wrong"), SLIPS.items())
def test_a_slip_is_fixed_to_the_letter(right: str, wrong: str, tmp_path: Path) -> None:
    path = written(tmp_path, (right, wrong))
    done = ran("--fix", path)
    assert path.read_text() == SAMPLE, done.output
    assert (done.exit_code, done.stdout.strip()) == (0, f"{path}: ok, 1 fixed")


def test_all_slips_at_once_are_fixed(tmp_path: Path) -> None:
    path = written(tmp_path, *SLIPS.items())
    assert ran("--fix", path).exit_code == 0
    assert path.read_text() == SAMPLE


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("layers = 3", "depth = 3"), ("group = 8trajs", "group = 1trajs"), ("agent_tokens(A)", "agent_tokens(B)")],
)
def test_what_has_no_safe_fix_is_left_alone(right: str, wrong: str, tmp_path: Path) -> None:
    path = written(tmp_path, (right, wrong))
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert ran("--fix", path).exit_code == 2
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_fixing_keeps_mode_mark_and_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + SAMPLE.replace("layers = 3", "layerz = 3").replace("\n", "\r\n").encode())
    path.chmod(0o640)
    assert ran("--fix", path).exit_code == 0
    assert path.read_bytes() == b"\xef\xbb\xbf" + SAMPLE.replace("\n", "\r\n").encode()
    assert path.stat().st_mode & 0o777 == 0o640


def test_fixing_writes_through_a_link(tmp_path: Path) -> None:
    path = written(tmp_path, ("layers = 3", "layerz = 3"))
    link = tmp_path / "link.rlspec"
    os.symlink(path, link)
    assert ran("--fix", link).exit_code == 0
    assert link.is_symlink()
    assert path.read_text() == SAMPLE


def test_without_the_option_nothing_is_written(tmp_path: Path) -> None:
    path = written(tmp_path, ("layers = 3", "layerz = 3"))
    done = ran(path)
    assert "layerz" in path.read_text()
    assert "1 that --fix can cure" in done.stdout


@pytest.mark.parametrize(
    ("wrong", "meant", "yes"),
    [
        ("layerz", "layers", True),
        ("trian", "train", True),
        ("verifed", "verified", True),
        ("stepss", "steps", True),
        ("clip_lo", "clip_high", False),
        ("R1", "R2", False),
        ("layers", "layers", False),
        ("reveal", "rewards", False),
    ],
)
def test_a_slip_is_one_letter(wrong: str, meant: str, yes: bool) -> None:
    assert slip(wrong, meant) is yes


def test_no_edits_change_nothing() -> None:
    assert applied("text", []) == ("text", 0)


def test_codes_have_the_form_of_codes() -> None:
    assert all(code.startswith("RLC") and len(code) == 7 and code[3:].isdigit() for code in CODES)
