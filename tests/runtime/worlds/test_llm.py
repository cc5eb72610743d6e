"""Users and judges that are language models, over real HTTP on the loopback: what is asked, sent, kept, and failed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer
from rlspec.compiler.catalog.papers import LlmJudge
from rlspec.compiler.catalog.users import LlmUser
from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.launch import launch
from rlspec.runtime.record.store import read
from rlspec.runtime.reporter import Unwatched
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.llm_judge import LlmJudgement
from rlspec.runtime.worlds.llm_user import LlmUsers
from rlspec.runtime.worlds.prompting import prompt
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Message, Task

TASK = Task("t", "train", "you are anna . you want the mug in blue .", (Call("recolour", {"item": "mug"}),))
RNG = stream(0, "x")


def user(model: ModelServer, strategy: str, retries: int = 0, **fields: Any):
    config = LlmUser(model="m", endpoint=model.url, strategy=strategy, timeout=20.0, **fields)  # type: ignore[arg-type]
    return LlmUsers(config, retries).open(TASK, RNG)


def verdict(good: bool, **more: str) -> str:
    return json.dumps({"satisfactory": good, "reason": "so", **more})


def own(request: dict[str, Any]) -> list[str]:
    """What the user's model is shown as said by itself."""
    return [m["content"] for m in request["messages"] if m["role"] == "assistant"]


def test_plain_speaks_until_the_stop_word(model: ModelServer):
    model.says("hi , my mug", "in blue", "###STOP###")
    talk = user(model, "plain")
    assert talk.first().text == "hi , my mug"
    assert (talk.reply("which colour ?").text, talk.reply("done").done) == ("in blue", True)
    assert (talk.reply("still there ?").text, talk.measure()["requests"]) == ("", 3)
    assert "anna" in model.seen[0]["messages"][0]["content"]
    assert own(model.seen[2]) == ["hi , my mug", "in blue"]
    assert [m["content"] for m in model.seen[2]["messages"] if m["role"] == "user"][1:] == ["which colour ?", "done"]


def test_react_keeps_the_thought_to_itself_and_the_leaky_one_does_not(model: ModelServer):
    said = "Thought:\nI hide that I want blue.\nUser Response:\nhi , my mug"
    model.says(said, said)
    assert user(model, "react").first().text == "hi , my mug"
    leaked = user(model, "react_leaky").first().text
    assert "I hide" in leaked
    assert "hi , my mug" in leaked


def test_react_asks_again_for_a_thought_without_an_answer_and_fails_in_the_end(model: ModelServer):
    model.says("Thought: hm", "Thought: a Thought: b\nUser Response: hello", "Thought: a", "Thought: b")
    assert user(model, "react", drafts=2).first().text == "hello"
    with pytest.raises(InfraFailure, match=r"user: .*2 thoughts without an answer"):
        user(model, "react", drafts=2).first()


def test_verify_records_what_it_sends_and_nothing_else(model: ModelServer):
    model.says("bad", verdict(False), "good", verdict(True), "bye", verdict(True))
    talk = user(model, "verify")
    assert talk.first().text == "good"
    talk.reply("and ?")
    assert own(model.seen[4]) == ["good"]
    assert talk.measure() == {"requests": 6, "rejected_drafts": 1}
    model.says("one", verdict(False), "two", "x", verdict(True))
    model.seen.clear()
    talk = user(model, "verify", drafts=2)
    assert talk.first().text == "two"  # nothing passed: the last is sent,
    talk.reply("and ?")
    assert own(model.seen[3]) == ["two"]  # and recorded


def test_reflect_sends_what_the_reviewer_wrote(model: ModelServer):
    model.says("bad", verdict(False, message="better"), verdict(True), "next", verdict(True))
    talk = user(model, "reflect")
    assert talk.first().text == "better"
    talk.reply("and ?")
    assert own(model.seen[3]) == ["better"]


def test_a_failure_is_the_users_and_retries_are_as_declared(model: ModelServer):
    model.says(503, "hello")
    assert user(model, "plain", retries=1).first().text == "hello"
    model.says(503, "hello")
    with pytest.raises(InfraFailure) as failure:
        user(model, "plain").first()
    assert failure.value.part == "user"


DIALOGUE = [
    Message("user", "my mug in blue"),
    Message("agent", "", call=Call("find_user", {"name": "anna"})),
    Message("tool", '{"user_id": "u1"}', status="ok"),
    Message("agent", "bye"),
]


def judge(model: ModelServer, **fields: Any) -> LlmJudgement:
    config = LlmJudge(model="m", endpoint=model.url, timeout=20.0, **fields)
    return LlmJudgement(config, lambda: "ask before you write")


def test_the_judge_sees_what_it_is_declared_to_see(model: ModelServer):
    model.says('{"labels": [1, -1]}', '{"labels": [0, 0]}')
    assert judge(model).measure(TASK, DIALOGUE, RNG) == {"score": [1, -1]}
    judge(model, sees=("dialogue",)).measure(TASK, DIALOGUE, RNG)
    everything, little = (request["messages"][0]["content"] for request in model.seen)
    hidden = ["ask before you write", "you are anna", 'recolour({"item": "mug"})']
    assert all(part in everything for part in hidden)
    assert not any(part in little for part in hidden)
    assert '[1] agent: call find_user({"name": "anna"})' in little
    assert "[2] agent: bye" in little


@pytest.mark.parametrize(
    "said",
    ["[1, 1]", '{"labels": [1]}', '{"labels": [1, 2]}', '{"labels": [true, 0]}', '{"labels": [-1, -1]}',
     '{"labels": ["1", 0]}', '{"labels": [1, 0], "more": 1}', "good work"],
)  # fmt: skip
def test_what_is_no_verdict_is_a_failure(model: ModelServer, said: str):
    model.says(said)
    with pytest.raises(InfraFailure) as failure:
        judge(model).measure(TASK, DIALOGUE, RNG)
    assert failure.value.part == "judge"
    assert len(model.seen) == 1


JUDGED = """rlspec = 1
experiment judged {
  policy agent : tiny { width = 16  layers = 1  heads = 2  kv_heads = 1  feed_forward = 32  context = 240tokens }
  env desk : shop { difficulty = 0  max_turns = 2agent_turns }
  user customer : agenda { serves = [desk] }
  judge turns : llm { on = [desk]  model = "m"  endpoint = "URL"  timeout = 20s  on_failure = [retry(1), outcome_only] }
  signal outcome : int@traj in {0, 1} = env.verified
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  reward R : real@traj = 10 * outcome + sum(verdict over turn)
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage train : grpo { tasks_per_step = 2tasks  group = 2trajs  steps = 1steps  max_new_tokens = 8tokens }
}
"""


def test_what_is_no_verdict_is_counted_and_the_declared_rule_holds(model: ModelServer, tmp_path: Path):
    """Three of four answers have one label too many, and each trajectory is asked for twice at most."""
    order: list[str] = []

    def answer(body: dict[str, Any]) -> str:
        text = body["messages"][0]["content"]
        turns = int(re.search(r"wrote (\d+) messages", text)[1])  # type: ignore[index]
        order.append(text)
        return json.dumps({"labels": [1] * (turns + (len(order) % 4 != 3))})

    model.answer = answer
    text = JUDGED.replace("URL", model.url)
    found = check(Source("judged.rlspec", text))
    assert found.plan is not None, found.errors
    launch(found.plan, text, tmp_path / "run", "local", Unwatched())
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    trajectories = read(next((tmp_path / "run" / "trajectories").glob("train*")))
    assert len(order) == sum(t.measures["turns.unusable"] for t in trajectories) + sum(
        not t.measures["turns.outcome_only"] for t in trajectories
    )
    assert line["failed"] == 0.0
    assert line["turns.unusable"] == sum(t.measures["turns.unusable"] for t in trajectories) / 4 > 0
    assert line["turns.outcome_only"] == sum(t.measures["turns.outcome_only"] for t in trajectories) / 4
    for t in trajectories:
        spared = t.measures["turns.outcome_only"]
        assert t.measures["turns.score"] == [0 if spared else 1] * t.ledger.turns
        assert t.measures["turns.unusable"] == (2 if spared else t.measures["turns.unusable"])
        assert t.scores["R"] == 10 * t.measures["desk.verified"] + (0 if spared else t.ledger.turns)
    assert {t.measures["turns.outcome_only"] for t in trajectories} == {0, 1}


def test_two_major_faults_where_they_are_allowed(model: ModelServer):
    model.says('{"labels": [-1, -1]}')
    assert judge(model, at_most_one_major=False).measure(TASK, DIALOGUE, RNG) == {"score": [-1, -1]}


def test_a_prompt_says_whether_the_user_thinks():
    assert "User Response:" in prompt("user", instruction="x", stop="S", thinks=True)
    assert "User Response:" not in prompt("user", instruction="x", stop="S", thinks=False)
