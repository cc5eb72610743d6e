"""Tools behind a real MCP server: the shop served over HTTP and over standard input and output, and a server that
misbehaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checking import plan_of
from rlspec.compiler.catalog.shop import Shop
from rlspec.compiler.catalog.tool_sides import Mcp
from rlspec.compiler.plan import Plan
from rlspec.runtime.policies.chat import Renderer
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.rollouts.roller import Roller
from rlspec.runtime.worlds.floors import floors
from rlspec.runtime.worlds.mcp import serving
from rlspec.runtime.worlds.mcp.world import McpWorld, state_hash
from rlspec.runtime.worlds.protocol import Call, InfraFailure
from rlspec.runtime.worlds.registry import runnable
from rlspec.runtime.worlds.shop.world import ShopWorld

pytest.importorskip("mcp", reason="needs the extra `mcp`")

SPEC = """rlspec = 1
experiment served {
  policy agent : tiny { context = 4000tokens }
  env desk : shop { difficulty = 1  max_turns = 14agent_turns }
  user customer : agenda { serves = [desk]  changes_mind = 90% }
  reward R : real@traj in {0, 1} = indicator(env.db_hash == env.reference_hash)
  advantage A : real@traj = zscore(R over traj)
  credit = agent_tokens(A)
  stage train : grpo { }
}
"""
WORLD = ShopWorld(Shop(difficulty=1, max_turns=14))
SERVE = [sys.executable, "-m", "rlspec.cli.main", "serve"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "served.rlspec").write_text(SPEC)
    serving.export(WORLD, folder / "desk", 4)
    return folder


@pytest.fixture(scope="module")
def url(desk: Path) -> Iterator[str]:
    process = subprocess.Popen([*SERVE, str(desk / "served.rlspec"), "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)


def settings(desk: Path, **more: Any) -> Mcp:
    fields = {"tasks": str(desk / "desk" / "tasks.jsonl"), "state_tool": "final_state", "verifier": "db_hash"}
    return Mcp.model_validate({**fields, "reward_truncated": True, "max_turns": 14, **more})


def rolled(plan: Plan, renderer: Renderer, agent: Any) -> list[Any]:
    jobs = [Job(f"train/0/{n}/{trial}", "desk", "train", n, n, "train") for n in range(4) for trial in range(4)]
    return Roller(plan, agent(renderer), renderer, 4000).run(jobs)


def test_whole_rollouts_over_http_are_those_of_the_shop_in_process(
    desk: Path, url: str, renderer: Renderer, demonstrator: Any
) -> None:
    env = f"""env desk : mcp {{
        url = "{url}"  tasks = "{desk / "desk" / "tasks.jsonl"}"  state_tool = "final_state"  verifier = db_hash
        max_turns = 14agent_turns  reward_truncated = true  on_failure = [retry(1), abort_above(0.5)]
      }}"""
    plan = plan_of(SPEC.replace("env desk : shop { difficulty = 1  max_turns = 14agent_turns }", env))
    runnable(plan)
    assert floors(plan) == []  # no task of the shop is solved before anything is done
    here, there = rolled(plan_of(SPEC), renderer, demonstrator), rolled(plan, renderer, demonstrator)
    assert [t.failure for t in there] == [None] * 16
    for mine, theirs in zip(here, there, strict=True):
        assert theirs.dialogue == mine.dialogue
        assert (theirs.finish, theirs.ledger.tokens().tolist()) == (mine.finish, mine.ledger.tokens().tolist())
        same = ("verified", "right_writes", "reads", "writes", "errors", "outputs_said")
        assert {n: theirs.measures[f"desk.{n}"] for n in same} == {n: mine.measures[f"desk.{n}"] for n in same}
        assert theirs.measures["customer.changed"] == mine.measures["customer.changed"]
        rewards = [t.measures["desk.db_hash"] == t.measures["desk.reference_hash"] for t in (mine, theirs)]
        assert rewards[0] == rewards[1] == bool(mine.measures["desk.verified"])
    assert {t.measures["desk.verified"] for t in there} == {0, 1}  # and not all the same
    assert any(t.measures["desk.errors"] for t in there)


def test_sessions_do_not_share_their_state(desk: Path, url: str) -> None:
    world = McpWorld(settings(desk, url=url))
    task = world.task("train", 0)
    first, second = world.reset(task), world.reset(task)
    for call in task.gold:
        seen = first.step(call)
    assert (seen.status, seen.wrote) == ("ok", True)
    assert first.measure()["verified"] == 1
    assert second.measure()["verified"] == 0
    copied = first.fork()
    assert copied.measure()["db_hash"] == first.measure()["db_hash"]
    assert first.step(task.gold[-1]).status == "error"  # done is done, and what a tool says of it is seen
    assert first.step(Call("final_state", {})).text == '{"error": "unknown tool"}'  # not for the agent
    assert json.dumps(world.tools) == json.dumps(list(WORLD.tools))  # so that prompts are the same, to the letter
    assert world.system.strip() == WORLD.system.strip()
    for session in (first, second, copied):
        session.close()


def test_over_standard_streams_one_session_serves_one_conversation_after_another(desk: Path, url: str) -> None:
    command = [*SERVE, str(desk / "served.rlspec")]
    world = McpWorld(
        settings(desk, command=command, reuse=True, state_tool="", hidden=["final_state"], verifier="calls")
    )
    world.ready()
    with pytest.raises(Refusal, match="has no tool `flying`, which writing names"):
        McpWorld(settings(desk, url=url, writing=["flying"])).ready()
    for number in (0, 1):
        task = world.task("test", number)
        session = world.reset(task)
        assert [session.step(call).status for call in task.gold] == ["ok"] * len(task.gold)
        found = session.measure()
        assert (found["verified"], found["floor"], found["writes"] > 0) == (1, 0, True)
        session.close()
    assert len(world._idle) == 1  # the one that was asked for the tools, and both conversations
    for connection in world._idle:
        connection.close()


ODD = """
import asyncio, os, sys
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

def tool(name, read_only=False):
    return Tool(name=name, description=name, input_schema={"type": "object"},
                annotations=ToolAnnotations(read_only_hint=read_only))

async def listed(context, params):
    return ListToolsResult(tools=[tool("slow", True), tool("die"), tool("refuse"), tool("stuck"),
                                  tool("state", True)])

calls = []

async def called(context, params):
    calls.append(params.name)
    if params.name == "stuck" or params.name == "slow" and calls.count("slow") < 2:
        await asyncio.sleep(30)
    if params.name == "die":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(1)
    text = str(calls.count("stuck")) if params.name == "state" else params.name
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=params.name == "refuse")

async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

server = Server("odd", on_list_tools=listed, on_call_tool=called)
asyncio.run(main())
"""


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "odd.py").write_text(ODD)
    rows = [
        {"id": "a", "instruction": "write", "split": "train", "gold": [{"name": "refuse", "arguments": {"x": 1}}]},
        {"id": "b", "instruction": "look", "split": "train", "gold": [{"name": "slow"}], "outputs": ["1,000"]},
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {"command": [sys.executable, str(tmp_path / "odd.py")], "tasks": str(tmp_path / "tasks.jsonl")}


def test_what_a_tool_says_is_seen_and_what_the_server_does_is_a_failure(odd: dict[str, Any]) -> None:
    world = McpWorld(Mcp.model_validate({**odd, "timeout": 1.5, "reuse": True}), retries=1)
    assert world.floor() == {"train": 0.5}
    session = world.reset(world.task("train", 1))
    assert session.step(Call("slow", {})).text == "slow"  # it changes nothing, so it was asked again
    assert session.step(Call("refuse", {})).status == "error"
    assert session.step(Call("nothing", {})).status == "error"
    session.hear("it is 1,000 then")
    found = session.measure()
    assert (found["verified"], found["outputs_said"], found["floor"], found["errors"]) == (1, 1, 1, 2)
    assert "db_hash" not in found
    session.cut()
    assert session.measure()["verified"] == 0
    with pytest.raises(InfraFailure, match=r"no answer within 1\.5 s"):
        session.step(Call("stuck", {}))
    assert session.step(Call("state", {})).text == "1"  # what may have written is not asked again
    with pytest.raises(InfraFailure, match=r"env: .*out of cheese"):
        session.step(Call("die", {}))
    session.close()
    assert world._idle == []  # a session that failed serves nobody else


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "http://127.0.0.1:9/mcp"}, "start the server"),
        ({"command": [sys.executable, "-c", "raise SystemExit('no such shop')"]}, "no such shop"),
        ({"command": ["/no/such/program"]}, "No such file"),
    ],
)
def test_a_server_that_does_not_answer_is_refused_before_the_run(
    odd: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    given = {**odd, **fields}
    world = McpWorld(Mcp.model_validate(given if "url" not in fields else {**given, "command": []}))
    with pytest.raises(Refusal) as refusal:
        world.ready()
    assert words in f"{refusal.value.reason} {refusal.value.cure}"


def test_states_are_hashed_by_what_they_mean() -> None:
    assert state_hash('{"a": 1, "b": [1, 2]}') == state_hash('{"b":[1,2],"a":1}')
    assert state_hash('{"b": [2, 1], "a": 1}') != state_hash('{"b":[1,2],"a":1}')
    assert state_hash("open") != state_hash("closed")
