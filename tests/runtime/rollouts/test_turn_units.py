"""Limits of a conversation, each in the unit of a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.engines.protocol import Sampled
from rlspec.runtime.policies.chat import Renderer
from rlspec.runtime.rollouts.desk import Desk
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.rollouts.roller import Roller

SPEC = """rlspec = 1
experiment units {
  policy agent : tiny { context = 4000tokens }
  env desk : shop { difficulty = 1  max_turns = 40agent_turns }
  user customer : agenda { serves = [desk] }
  reward R : real@traj in {0, 1} = env.verified
  advantage A : real@traj = zscore(R over traj)
  credit = agent_tokens(A)
  stage train : grpo { }
}
"""


def talks(renderer: Renderer, agent: Any, limit: Callable[[Desk], None] = lambda desk: None) -> list[Any]:
    plan = check(Source("units.rlspec", SPEC)).plan
    assert plan is not None
    roller = Roller(plan, agent(renderer), renderer, 4000)
    limit(roller.desks["desk"])
    return roller.run([Job(f"train/0/{n}/{n}", "desk", "train", n, n, "train") for n in range(8)])


@pytest.mark.parametrize(("limit", "counts"), [
    ("max_turns", lambda dialogue: sum(m.role == "agent" for m in dialogue)),
    ("max_events", lambda dialogue: sum(m.role != "agent" for m in dialogue) - 1),  # the user's first words are none
    ("max_messages", len),
])  # fmt: skip
def test_a_talk_is_cut_when_the_unit_is_used_up(
    renderer: Renderer, demonstrator: Any, limit: str, counts: Callable[[Any], int]
) -> None:
    whole = talks(renderer, demonstrator)
    for most in (5, 6):
        cut = talks(renderer, demonstrator, lambda desk, most=most: setattr(desk, limit, most))  # type: ignore[misc]
        for before, after in zip(whole, cut, strict=True):
            assert after.dialogue[:-1] == before.dialogue[: len(after.dialogue) - 1]
            if counts(before.dialogue) > most:
                assert (counts(after.dialogue), after.finish) == (most, "turn_limit")
        assert any(t.finish == "turn_limit" for t in cut)


def test_the_last_message_of_all_is_not_answered(renderer: Renderer, demonstrator: Any) -> None:
    cut = talks(renderer, demonstrator, lambda desk: setattr(desk, "max_messages", 4))
    assert {t.dialogue[-1].role for t in cut} == {"agent"}  # user, agent, answer, agent
    calls = [t.dialogue[-1] for t in cut if t.dialogue[-1].call is not None]
    assert calls
    assert all(message.status is None for message in calls)  # nobody ran it


def test_a_call_that_cannot_be_read_is_answered_or_ends_the_talk(renderer: Renderer, demonstrator: Any) -> None:
    broken = [*renderer.tokenizer("<tool_call>\n{\n</tool_call>", add_special_tokens=False)["input_ids"]]
    bye = [*renderer.tokenizer("bye", add_special_tokens=False)["input_ids"]]

    class Slips(demonstrator):  # type: ignore[misc]
        def poll(self) -> list[Sampled]:
            asked, self.waiting = self.waiting, []
            said = {key: [*(bye if self.talks[key][1][1:] else broken), renderer.stop_token] for key in asked}
            return [Sampled(key, t, [0.0] * len(t), [0] * len(t), "stop") for key, t in said.items()]

    answered = talks(renderer, Slips)
    assert {t.dialogue[2].text.startswith("error : the call is not JSON") for t in answered} == {True}
    assert not any(t.finish == "malformed" for t in answered)
    ended = talks(renderer, Slips, lambda desk: setattr(desk, "ends_malformed", True))
    assert {(t.finish, len(t.dialogue), t.failure) for t in ended} == {("malformed", 2, None)}
