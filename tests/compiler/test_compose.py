"""Composition: variants and overlays patch the tree, keep places, and refuse what does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import plan_of
from rlspec.compiler.catalog import catalog
from rlspec.compiler.check import Checked, check, check_whole, settings_of
from rlspec.compiler.compose import shifted
from rlspec.compiler.patches import leaf_item
from rlspec.compiler.plan import Plan
from rlspec.compiler.resolved import resolved_text
from rlspec.dsl import parser, tree
from rlspec.dsl.diagnostics import Source, render

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
SPECS = [*sorted((ROOT / "examples").glob("*.rlspec")), *sorted((ROOT / "specs" / "papers").glob("*.rlspec"))]


def with_block(block: str) -> str:
    end = SAMPLE.rindex("}")
    return f"{SAMPLE[:end]}\n  {block}\n}}\n"


def varied(patches: str) -> Checked:
    return check(Source("test.rlspec", with_block(f"variant v {{ {patches} }}")), variant="v")


def base_plan() -> Plan:
    return plan_of(check(Source("test.rlspec", SAMPLE)))


def stage(plan: Plan, label: str) -> dict[str, object]:
    return next(s.fields for s in plan.stages if s.label == label)


def test_a_variant_that_is_not_selected_changes_nothing() -> None:
    found = check(Source("test.rlspec", with_block("variant v { patch.stage.train.lr = 1e-5 }")))
    assert plan_of(found).digest == base_plan().digest
    assert list(found.composition.variants) == ["v"]


def test_a_field_is_patched_in_its_place() -> None:
    plan = plan_of(varied("patch.stage.train.lr = 1e-5"))
    assert stage(plan, "train")["lr"] == 1e-5
    assert stage(plan, "train")["group"] == stage(base_plan(), "train")["group"]
    assert plan.digest != base_plan().digest


def test_a_patch_that_repeats_the_spec_keeps_the_digest() -> None:
    assert (
        plan_of(varied("patch.policy.agent.layers = 3  patch.stage.train { lr = 3e-4 }")).digest == base_plan().digest
    )


def test_nested_fields_merge_whether_written_as_block_or_with_dots() -> None:
    plan = plan_of(varied("patch.stage.train { kl { coefficient = 0.1 } }  patch.stage.train.kl.place = reward"))
    assert stage(plan, "train")["kl"] == {"coefficient": 0.1, "estimator": "k3", "place": "reward"}


def test_the_label_may_be_left_out_when_there_is_one_declaration() -> None:
    assert plan_of(varied("patch.policy.layers = 2")).policy.fields["layers"] == 2


def test_another_component_keeps_the_wiring() -> None:
    plan = plan_of(varied("patch.user.customer : agenda { patience = 5agent_turns }"))
    assert plan.users[0].wiring == {"serves": ["desk"]}
    assert plan.users[0].fields["patience"] == 5
    assert plan.users[0].fields["reveal"] == catalog()["user"]["agenda"].model_fields["reveal"].default


def test_formulas_and_their_types_are_patched() -> None:
    plan = plan_of(varied("patch.advantage.A : real@turn = zscore(verdict over (traj, turn)) + 0 * R"))
    assert plan.sources[0].advantage_level == "turn"
    plan = plan_of(varied("patch.reward.R = outcome"))
    assert plan.sources[0].ranges["R"] == "real@traj in {0, 1}"


def test_a_removal_takes_a_declaration_or_a_field_away() -> None:
    plan = plan_of(varied("remove = [stage.coldstart]  patch.stage.held_out.after = [train]"))
    assert [s.label for s in plan.stages] == ["train", "held_out"]
    assert plan_of(varied("remove = [policy.agent.context]")).policy.fields["context"] == 320


def test_a_variant_can_declare_something_new() -> None:
    plan = plan_of(varied("stage more : grpo { steps = 3steps }  patch.seed = 7"))
    assert [s.label for s in plan.stages][-1] == "more"
    assert plan.seed == 7


def test_the_note_of_a_variant_is_in_the_plan_but_not_in_its_digest() -> None:
    plan = plan_of(varied('note = "only a name"'))
    assert plan.notes == ("variant v: only a name",)
    assert plan.digest == base_plan().digest


MISTAKES = {
    "unknown label": ("patch.stage.trian.lr = 1e-5", "RLC0111", "did you mean `train`?"),
    "unknown field": ("patch.policy.agent.widht = 32", "RLC0111", "did you mean `width`?"),
    "unknown nested field": ("patch.stage.train.kl.coeficient = 1", "RLC0111", "did you mean `coefficient`?"),
    "unknown field in a block": ("patch.stage.train { kl { plase = loss } }", "RLC0111", "did you mean `place`?"),
    "field of a number": ("patch.stage.train.lr.peak = 1", "RLC0111", "has no fields"),
    "unknown kind": ("patch.jugde.turns.flip = 1%", "RLC0111", "did you mean `judge`?"),
    "unknown formula": ("patch.reward.Q = 1", "RLC0111", "there is R"),
    "part of a formula": ("patch.reward.R.x = 1", "RLC0111", "has no part"),
    "removal of nothing": ("remove = [stage.cold]", "RLC0111", "did you mean `coldstart`?"),
    "removal of a default": ("remove = [stage.train.grad_clip]", "RLC0111", "is not written"),
    "removal of a number": ("remove = [3]", "RLC0201", "a path was expected"),
    "which stage": ("patch.stage = 3", "RLC0111", "which stage?"),
    "nothing named": ("patch = 3", "RLC0111", "a patch names what it changes"),
    "value for a block": ("patch.policy.agent = 3", "RLC0207", "takes a block"),
    "unknown word": ("frob = 1", "RLC0102", "unknown kind `frob` in variant v"),
    "a bad value": ("patch.stage.train.lr = -1", "RLC0401", "`lr` is more than 0"),
    "a unit": ("patch.env.desk.max_turns = 3tokens", "RLC0305", "agent_turns"),
    "another env": ("patch.reward.R on home = 1", "RLC0111", "on `home`"),
    "taken label": ("judge turns : oracle { }", "RLC0105", "declared twice"),
    "note": ("note = 3", "RLC0201", "a text in quotes"),
    "level": ("patch.reward.R = verdict", "RLC0301", "varies over turn"),
}


@pytest.mark.parametrize(("patches", "code", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_a_variant_is_reported_in_the_variant(patches: str, code: str, words: str) -> None:
    found = check_whole(Source("test.rlspec", with_block(f"variant v {{ {patches} }}")))
    (error,) = found.errors
    shown = render(error, found.source)
    assert error.code == code, shown
    assert words in shown
    assert "in variant `v`" in shown
    assert error.span is not None
    place = next(n for n, text in enumerate(found.source.text.splitlines(), 1) if "variant v {" in text)
    assert found.source.position(error.span.start)[0] == place


def test_a_whole_check_says_a_mistake_of_the_spec_once() -> None:
    text = with_block("variant v { patch.stage.train.lr = 1e-5 }").replace("layers = 3", "layerz = 3")
    found = check_whole(Source("test.rlspec", text))
    assert [d.code for d in found.errors] == ["RLC0104"]


def test_an_unknown_variant_has_a_near_name() -> None:
    found = check(Source("test.rlspec", with_block("variant small { }")), variant="smal")
    assert [d.code for d in found.errors] == ["RLC0101"]
    assert found.errors[0].notes == ("did you mean `small`?",)


@pytest.mark.parametrize(
    ("block", "code"),
    [("variant { }", "RLC0108"), ("variant v = 3", "RLC0207"), ("variant v { }\n  variant v { }", "RLC0105")],
)
def test_a_malformed_variant_is_reported(block: str, code: str) -> None:
    assert [d.code for d in check(Source("test.rlspec", with_block(block))).errors] == [code]


OVERLAY = "rlspec = 1\n\noverlay laptop {\n  patch.policy.layers = 2\n  patch.stage.train.steps = 5steps\n}\n"


def overlaid(overlay: str, variant: str | None = None) -> Checked:
    text = with_block("variant v { patch.stage.train { steps = 50steps  lr = 1e-5 } }")
    return check(Source("test.rlspec", text), variant=variant, overlays=[Source("laptop.rlspec", overlay)])


def test_an_overlay_comes_after_the_variant() -> None:
    plan = plan_of(overlaid(OVERLAY, "v"))
    assert plan.policy.fields["layers"] == 2
    assert (stage(plan, "train")["steps"], stage(plan, "train")["lr"]) == (5, 1e-5)


def test_the_command_line_comes_last() -> None:
    text = with_block("param k : real in [0, 1] = 0.1\n  variant v { patch.param.k = 0.2 }").replace("- 0.1 *", "- k *")
    overlay = Source("o.rlspec", "rlspec = 1\noverlay o { patch.param.k = 0.05 }")
    found = check(Source("test.rlspec", text), settings_of({"k": "0.01"}), variant="v", overlays=[overlay])
    assert plan_of(found).sources[0].ranges["R"] == "real@traj in [-0.01, 1.1]"


def test_a_mistake_in_an_overlay_is_shown_in_its_file() -> None:
    found = overlaid(OVERLAY.replace("layers", "layerz").replace("5steps", "5tokens"))
    shown = [render(d, found.source) for d in found.errors]
    assert [d.code for d in found.errors] == ["RLC0111", "RLC0305"]
    assert "laptop.rlspec:4:16" in shown[0]
    assert "laptop.rlspec:5:29" in shown[1]


@pytest.mark.parametrize(
    ("text", "code"),
    [("rlspec = 1", "RLC0110"), ("rlspec = 1\nexperiment x { }", "RLC0102"), ("overlay x { patch.seed = }", "RLC0005")],
)
def test_a_file_that_is_no_overlay_is_refused(text: str, code: str) -> None:
    found = overlaid(text)
    assert [d.code for d in found.errors] == [code]
    assert "laptop.rlspec" in render(found.errors[0], found.source)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_resolved_spec_of_every_variant_compiles_to_its_digest(path: Path) -> None:
    source = Source(str(path), path.read_text())
    digests = [plan_of(check(source)).digest]
    for name in check(source).composition.variants:
        found = check(source, variant=name)
        plan = plan_of(found)
        assert found.experiment is not None
        again = plan_of(check(Source("resolved.rlspec", resolved_text(found.experiment, plan))))
        assert again.digest == plan.digest
        digests.append(plan.digest)
    assert len(set(digests)) == len(digests), "a variant that changes nothing"


def test_shifted_trees_keep_their_distances() -> None:
    file, _ = parser.parse(Source("test.rlspec", SAMPLE))
    moved = shifted(file, 1000)
    assert shifted(moved, -1000) == file
    assert moved.items[0].span == tree.Span(file.items[0].span.start + 1000, file.items[0].span.stop + 1000)


def test_a_leaf_is_found_through_blocks_and_dots() -> None:
    file, _ = parser.parse(Source("t", "a { b { c = 1 } }\nd.e = 2\nd { f = 3 }"))
    for path, value in ((["a", "b", "c"], 1), (["d", "e"], 2), (["d", "f"], 3)):
        found = leaf_item(file.items, path)
        assert found is not None
        assert isinstance(found.value, tree.Number)
        assert found.value.value == value
    assert leaf_item(file.items, ["a", "x"]) is None


def test_a_sweep_is_a_grid_of_variants() -> None:
    text = with_block("sweep s { patch.stage.train.lr = [1e-5, 2e-5]  patch.policy.layers = [1, 2, 3] }")
    source = Source("test.rlspec", text)
    names = list(check(source).composition.variants)
    assert names == [f"s.{n}" for n in range(1, 7)]
    plans = [plan_of(check(source, variant=name)) for name in names]
    assert [(stage(p, "train")["lr"], p.policy.fields["layers"]) for p in plans[:4]] == [
        (1e-5, 1), (1e-5, 2), (1e-5, 3), (2e-5, 1)
    ]  # fmt: skip
    assert len({p.digest for p in plans}) == 6
    assert plans[3].notes == ("variant s.4: stage.train.lr = 2e-5, policy.layers = 1",)


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("sweep s { patch.stage.train.lr = [1e-5, -1] }", "RLC0401"),
        ("sweep s { patch.stage.trian.lr = [1e-5, 2e-5] }", "RLC0111"),
        ("sweep s { patch.stage.train.lr = 1e-5 }", "RLC0201"),
        ("sweep s { remove = [stage.train] }", "RLC0102"),
        ("sweep s { }", "RLC0502"),
        ("sweep { patch.seed = [1, 2] }", "RLC0108"),
        ("sweep s { patch.seed = [1, 2] }\n  sweep s { patch.seed = [1, 2] }", "RLC0105"),
        (f"sweep s {{ patch.seed = {list(range(20))}  patch.policy.layers = {list(range(20))} }}", "RLC0401"),
    ],
)
def test_a_mistake_in_a_sweep_is_said_once(block: str, code: str) -> None:
    found = check_whole(Source("test.rlspec", with_block(block)))
    assert [d.code for d in found.errors] == [code]
