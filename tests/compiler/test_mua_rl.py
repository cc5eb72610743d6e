"""MUA-RL's ablations on a laptop: which of them are another experiment there."""

from __future__ import annotations

from pathlib import Path

from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source

SPECS = Path(__file__).parents[2] / "specs"


def source(path: Path) -> Source:
    return Source(str(path), path.read_text(encoding="utf-8"))


def test_on_a_laptop_the_ablations_of_scale_alone_are_the_paper_s_run() -> None:
    spec, overlays = source(SPECS / "papers" / "mua_rl.rlspec"), [source(SPECS / "scale" / "laptop.rlspec")]
    digests = {}
    for name in (None, *check(spec).composition.variants):
        plan = check(spec, variant=name, overlays=overlays).plan
        assert plan is not None
        digests[name] = plan.digest
    same = {name for name, digest in digests.items() if digest == digests[None]} - {None}
    assert same == {"thirty_epochs", "size_14b", "size_8b"}
    assert len(set(digests.values())) == len(digests) - len(same)


def test_on_a_laptop_a_talk_that_was_cut_off_is_paid_as_the_spec_says() -> None:
    spec, overlays = source(SPECS / "papers" / "mua_rl.rlspec"), [source(SPECS / "scale" / "laptop.rlspec")]
    for variant, paid in ((None, True), ("no_pay_for_cut", False)):
        plan = check(spec, variant=variant, overlays=overlays).plan
        assert plan is not None
        assert (plan.labelled("desk").name, plan.labelled("desk").fields["reward_truncated"]) == ("shop", paid)
