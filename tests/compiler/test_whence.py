"""Where values come from: every layer that wrote one, the last one counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import check
from rlspec.compiler.compose import Composition
from rlspec.compiler.whence import chain, paths, rendered
from rlspec.dsl.diagnostics import Source, SpecError

SAMPLE = (Path(__file__).parents[2] / "tests" / "sample.rlspec").read_text()
BLOCK = """
  param k : real in [0, 1] = assumed(0.1, "not published")
  param twice : real in [0, 2] = 2 * k
  variant v { patch.stage.train.lr = chosen(1e-5, "half the steps")  patch.stage.train { kl { place = reward } }
              remove = [policy.agent.context]  patch.param.k = 0.2 }
"""
OVERLAY = Source("laptop.rlspec", "rlspec = 1\noverlay laptop {\n  patch.stage.train.lr = 2e-5\n}\n")


@pytest.fixture(scope="module")
def composition() -> Composition:
    text = SAMPLE[: SAMPLE.rindex("}")].replace("- 0.1 * indicator", "- k * indicator") + BLOCK + "}\n"
    return check(Source("s.rlspec", text), variant="v", overlays=[OVERLAY]).composition


def layers(composition: Composition, path: str) -> list[tuple[str, str]]:
    return [(link.layer, link.text) for link in chain(composition, path).links]


def test_a_field_has_its_default_and_every_layer(composition: Composition) -> None:
    assert layers(composition, "stage.train.lr") == [
        ("schema default", "0.0003"),
        ("spec", "3e-4"),
        ("variant v", 'chosen(1e-5, "half the steps")'),
        ("overlay laptop", "2e-5"),
    ]
    assert chain(composition, "stage.train.lr").last.place == "laptop.rlspec:3"


def test_units_labels_and_removals(composition: Composition) -> None:
    assert layers(composition, "policy.context") == [
        ("schema default", "320tokens"), ("spec", "384tokens"), ("variant v", "320tokens")
    ]  # fmt: skip
    assert layers(composition, "stage.train.kl.place") == [("schema default", "loss"), ("variant v", "reward")]
    assert layers(composition, "judge.turns.on_failure") == [("schema default", "drop")]
    assert layers(composition, "user.customer.serves") == [("schema default", "every env"), ("spec", "[desk]")]
    assert layers(composition, "seed") == [("schema default", "0")]


def test_a_formula_brings_the_params_that_it_reads(composition: Composition) -> None:
    found = chain(composition, "reward.R")
    assert [p.path for p in found.params] == ["param.k"]
    assert [link.layer for link in found.params[0].links] == ["spec", "variant v"]
    assert [p.path for p in chain(composition, "param.twice").params] == ["param.k"]


def test_the_command_line_is_the_last_link(composition: Composition) -> None:
    found = chain(composition, "param.k", {"k": "0.5"})
    assert (found.last.layer, found.last.text) == ("command line", "0.5")
    assert rendered(found).splitlines()[0] == "param.k = 0.5"


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("stage.train.lrr", "stage.train.lr"),
        ("stage.trian.lr", "stage.train.lr"),
        ("policy.agent.widht", "policy.agent.width"),
        ("rewrad.R", "reward.R"),
        ("stage", "stage.train"),
        ("", "e.g."),
    ],
)
def test_a_path_that_does_not_exist_has_a_near_one(composition: Composition, path: str, near: str) -> None:
    with pytest.raises(SpecError) as caught:
        chain(composition, path)
    (error,) = caught.value.diagnostics
    assert error.code == "RLC0111"
    assert near in error.notes[0]


def test_every_listed_path_has_a_chain(composition: Composition) -> None:
    body = composition.layers[-1].body
    for path in paths(body):
        assert chain(composition, path).links, path
