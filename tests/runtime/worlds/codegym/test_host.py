"""Steps are tried in a child; whatever goes wrong there leaves the state as it was, and is what the agent sees."""

from __future__ import annotations

import os
import signal

import pytest

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.environment import Design
from rlspec.runtime.worlds.codegym.host import Host
from rlspec.runtime.worlds.codegym.jail import Jail, Job, Limits
from rlspec.runtime.worlds.protocol import Call

QUICK = Limits(wall=0.6, cpu=1.0, memory=60 << 20)


@pytest.fixture
def host(jail: Jail) -> Host:
    return Host(jail, QUICK)


def test_a_step_changes_the_state_and_shows_its_result(host: Host, trouble: Design) -> None:
    handle = host.open(trouble, {"numbers": [3, 4]})
    assert host.step(handle, 1, Call("get_numbers", {"index": 1})).text == "4"
    observation = host.step(handle, 2, Call("keep", {"x": 7}))
    assert (observation.text, observation.status, observation.wrote) == ("1", "ok", True)
    assert host.state(handle) == '{"numbers": [3, 4], "kept": [7]}'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fail", "IndexError"),
        ("spin", "too long"),
        ("swell", "too much memory"),
        ("dive", "RecursionError"),
    ],
)
def test_trouble_leaves_the_state_as_it_was(host: Host, trouble: Design, name: str, said: str) -> None:
    handle = host.open(trouble, {"numbers": [3]})
    host.step(handle, 1, Call("keep", {"x": 7}))
    before = host.state(handle)
    observation = host.step(handle, 2, Call(name, {"x": 1}))
    assert observation.status == "error"
    assert said in observation.text
    assert host.state(handle) == before
    assert host.step(handle, 3, Call("keep", {"x": 8})).text == "2"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("nothing", {}), "unknown tool"),
        (Call("keep", {}), "missing argument x"),
        (Call("keep", {"x": 1, "kept": []}), "unknown argument kept"),
        (Call("keep", {"x": "1"}), "not of type int"),
        (Call("keep", {"x": True}), "not of type int"),
        (Call("get_numbers", {"index": -1}), "no such index"),
    ],
)
def test_mistakes_are_observations(host: Host, trouble: Design, call: Call, said: str) -> None:
    handle = host.open(trouble, {"numbers": [3]})
    observation = host.step(handle, 1, call)
    assert observation.status == "error"
    assert said in observation.text


def test_a_retry_is_not_applied_twice(host: Host, trouble: Design) -> None:
    handle = host.open(trouble, {"numbers": []})
    first = host.step(handle, 1, Call("keep", {"x": 7}))
    assert host.step(handle, 1, Call("keep", {"x": 7})) == first
    assert host.state(handle) == '{"numbers": [], "kept": [7]}'
    with pytest.raises(ValueError, match="cannot follow"):
        host.step(handle, 3, Call("keep", {"x": 7}))


def test_only_the_first_answer_counts_and_nothing_is_revealed(host: Host, trouble: Design) -> None:
    handle = host.open(trouble, {"numbers": [5]})
    done = host.step(handle, 1, Call("Done", {"answer": 4}))
    assert (done.text, done.ends) == ("submitted", True)
    again = host.step(handle, 2, Call("Done", {"answer": 5}))
    assert (again.status, again.ends) == ("error", False)
    assert host.submitted(handle) == (True, 4)


def test_a_copy_shares_nothing(host: Host, trouble: Design) -> None:
    handle = host.open(trouble, {"numbers": []})
    host.step(handle, 1, Call("keep", {"x": 7}))
    copy = host.copy(handle)
    host.step(copy, 2, Call("keep", {"x": 8}))
    assert host.state(handle) == '{"numbers": [], "kept": [7]}'
    assert host.state(copy) == '{"numbers": [], "kept": [7, 8]}'


def test_equal_steps_are_run_once_and_end_alike(jail: Jail, trouble: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Job] = []
    original = Jail.run
    monkeypatch.setattr(Jail, "run", lambda self, job: ran.append(job) or original(self, job))
    host = Host(jail, QUICK, remembers=8)
    seen = []
    for _ in range(3):
        handle = host.open(trouble, {"numbers": [5]})
        calls = [Call("keep", {"x": 7}), Call("fail", {"x": 1}), Call("keep", {"x": 7})]
        seen.append(([host.step(handle, n, call) for n, call in enumerate(calls, 1)], host.state(handle)))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1] == '{"numbers": [5], "kept": [7, 7]}'
    assert len(ran) == 3


def test_what_a_limit_ended_is_tried_again(jail: Jail, trouble: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Job] = []
    original = Jail.run
    monkeypatch.setattr(Jail, "run", lambda self, job: ran.append(job) or original(self, job))
    host = Host(jail, Limits(wall=0.2, cpu=1.0, memory=60 << 20), remembers=8)
    for _ in range(2):
        handle = host.open(trouble, {"numbers": [5]})
        for number, name in enumerate(("spin", "swell"), 1):
            assert host.step(handle, number, Call(name, {"x": 1})).status == "error"
    assert len(ran) == 4


def test_the_filter_closes_what_code_could_reach(jail: Jail) -> None:
    """Files, folders, sockets, signals, directories and processes are tried from inside, each must fail."""
    assert jail.run(Job(None, 0, {"op": "probe"})).value == {"open": []}


def test_without_the_filter_the_same_attempts_succeed() -> None:
    """So the test above can fail."""
    with Jail(workers=1, sandbox="none") as jail:
        assert "read a file" in jail.run(Job(None, 0, {"op": "probe"})).value["open"]


def hostile(body: str) -> Design:
    """A design whose module the guard has never seen."""
    module = f"def reach(x: int) -> int:\n    {body}\n"
    parameters = [{"name": "x", "type": "int"}]
    tool = {"name": "reach", "doc": "", "parameters": parameters, "returns": "int", "function": "reach"}
    whole = {"class_name": "Hostile", "statement": "", "module": module, "main": "reach", "solve": "", "tools": [tool]}
    return Design.model_validate({**whole, "answer_type": "int"})


WALK = "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__"


@pytest.mark.parametrize(
    "body",
    [
        f"return len({WALK}['listdir']('/'))",
        f"return {WALK}['open']('/proc/self/status', 0)",
        f"return 1 if {WALK}['system']('true') == 0 else 1 // 0",
        f"return {WALK}['kill']({WALK}['getppid'](), 9)",
        f"{WALK}['_exit'](0)",
        f"return {WALK}['write'](3, b'x' * 10_000_000)",
    ],
)
def test_code_that_walks_around_every_name_gets_nowhere(jail: Jail, body: str) -> None:
    host = Host(jail, QUICK)
    handle = host.open(hostile(body), {})
    zygote = jail.pid
    assert host.step(handle, 1, Call("reach", {"x": 1})).status == "error"
    assert host.state(handle) == "{}"
    assert jail.pid == zygote
    assert zygote is not None
    os.kill(zygote, 0)


def test_a_dead_zygote_is_replaced_and_no_state_is_lost(trouble: Design) -> None:
    with Jail(workers=1) as jail:
        host = Host(jail, QUICK)
        handle = host.open(trouble, {"numbers": []})
        host.step(handle, 1, Call("keep", {"x": 7}))
        assert jail.pid is not None
        os.kill(jail.pid, signal.SIGKILL)
        assert host.step(handle, 2, Call("keep", {"x": 8})).text == "2"


def test_a_machine_that_cannot_keep_code_in_is_refused() -> None:
    """What a child that got no filter reports, before any code has run, ends the jail."""
    with pytest.raises(Refusal, match="RLC0710"):
        Jail(workers=1)._result("unjailed", b"")
