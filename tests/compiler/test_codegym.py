"""CodeGym in the language: the paper's spec, its plan, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import Checked, check, check_whole, run_tests
from rlspec.compiler.plan import Plan
from rlspec.dsl.diagnostics import Source

SPECS = Path(__file__).parents[2] / "specs"
PAPER = SPECS / "papers" / "codegym.rlspec"


def source(path: Path) -> Source:
    return Source(str(path), path.read_text())


def test_the_paper_s_spec_and_its_ablations_are_sound() -> None:
    found = check_whole(source(PAPER))
    assert [d for d in found.diagnostics if d.severity != "note"] == []
    verdicts, mistakes = run_tests(found)
    assert mistakes == []
    assert len(verdicts) == 4
    assert all(v.failure is None for v in verdicts)
    assert set(found.composition.variants) >= {
        "unfiltered", "easy_tests", "shown_inputs", "long_cot", "sft_oracle", "sft_distilled", "one_family",
    }  # fmt: skip


def test_the_laptop_s_budgets_fit_it() -> None:
    overlays = [source(SPECS / "scale" / name) for name in ("laptop.rlspec", "short.rlspec")]
    found = check(source(PAPER), overlays=overlays)
    assert found.errors == []
    assert found.plan is not None
    assert found.plan.policy.name == "tiny"
    made = next(s for s in found.plan.stages if s.name == "codegym")
    assert (made.fields["author"], made.fields["admit"]["policy"]) == ("deterministic", "random")


@pytest.fixture(scope="module")
def on_a_laptop() -> dict[str | None, Plan]:
    """The paper's plan and those of its ablations, with the laptop's overlay."""
    overlays = [source(SPECS / "scale" / "laptop.rlspec")]
    names = [None, *check(source(PAPER)).composition.variants]
    found = {name: check(source(PAPER), variant=name, overlays=overlays).plan for name in names}
    assert all(found.values())
    return {name: plan for name, plan in found.items() if plan is not None}


def test_on_a_laptop_only_what_comes_before_reinforcement_has_bad_habits(on_a_laptop: dict[str | None, Plan]) -> None:
    for name, plan in on_a_laptop.items():
        cold = next(s for s in plan.stages if s.name == "sft")
        assert cold.fields["mixture"]["guesses"] == (0.0 if str(name).startswith("sft") else 0.5), name
        assert plan.labelled("gym").fields["tool_names"] == "drawn"
    other = check(source(SPECS / "papers" / "tarl.rlspec"), overlays=[source(SPECS / "scale" / "laptop.rlspec")]).plan
    assert other is not None
    assert next(s for s in other.stages if s.name == "sft").fields["refuse_above"] == 0.085


def test_on_a_laptop_two_ablations_are_like_another_run(on_a_laptop: dict[str | None, Plan]) -> None:
    digests = {name: plan.digest for name, plan in on_a_laptop.items()}
    assert (digests["large"], digests["sft_distilled"]) == (digests[None], digests["sft_oracle"])
    assert len(set(digests.values())) == len(digests) - 2


def test_environments_flow_from_the_stage_to_the_envs() -> None:
    plan = check(source(PAPER)).plan
    assert plan is not None
    edges = {(e.source, e.target) for e in plan.graph.edges}
    assert {("synthesise/environments", "gym/tasks"), ("synthesise/environments", "strangers/tasks")} <= edges
    assert {s.label: s.policy_from for s in plan.stages}["train"] is None
    assert {s.env: s.share for s in plan.sources} == {"gym": 1.0, "strangers": 0.0}


SPEC = """rlspec = 1
experiment e {
  policy agent : tiny { }
  stage synthesise : codegym { problems = "shipped" }
  env gym : codegym { from = synthesise }
  reward R : real@traj in {0, 1} = env.verified
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage coldstart : sft { }
  stage exam : evaluate { after = [coldstart] }
}
"""


def checked(old: str, new: str) -> Checked:
    assert old in SPEC
    return check(Source("e.rlspec", SPEC.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("from = synthesise", "", "RLC0505"),
        ("from = synthesise", 'from = synthesise  source = "envs"', "RLC0505"),
        ("from = synthesise", "from = synthesize", "RLC0101"),
        ('problems = "shipped"', "author = llm", "RLC0505"),
        ('problems = "shipped"', "admit.solution_calls = [20calls, 10calls]", "RLC0505"),
        ('problems = "shipped"', "admit.solution_calls = [10steps, 20steps]", "RLC0305"),
        ('problems = "shipped"', "admit.solve_rate = 120%", "RLC0401"),
        ("after = [coldstart]", "on = [strangers]  after = [coldstart]", "RLC0101"),
    ],
)
def test_what_does_not_fit_is_reported(old: str, new: str, code: str) -> None:
    assert code in {d.code for d in checked(old, new).errors}


def test_an_env_that_is_only_measured_has_no_share_and_no_warning() -> None:
    two = """env gym : codegym { from = synthesise }
  env others : codegym { from = synthesise }
  mix tasks { gym = 100%  others = 0% }"""
    env = "env gym : codegym { from = synthesise }"
    assert "RLC0526" in {d.code for d in checked(env, two).diagnostics}
    named = SPEC.replace(env, two).replace("after = [coldstart]", "on = [others]  after = [coldstart]")
    assert "RLC0526" not in {d.code for d in check(Source("e.rlspec", named)).diagnostics}
