"""Answers that take their time: nobody waits for another's, failures arrive where they are taken."""

from __future__ import annotations

import threading

import pytest

from rlspec.runtime.rollouts.waiting import Waiting


def test_the_quick_do_not_wait_for_the_slow():
    gate, got = threading.Event(), []
    waiting = Waiting(at_once=2)
    waiting.ask("slow", lambda: gate.wait(20), lambda outcome: got.append(("slow", outcome.get())))
    waiting.ask("quick", lambda: 3, lambda outcome: got.append(("quick", outcome.get())))
    waiting.take(block=True)
    assert got == [("quick", 3)]
    waiting.take(block=False)
    assert len(got) == 1
    gate.set()
    waiting.take(block=True)
    assert got[1:] == [("slow", True)]
    assert not waiting


def test_what_comes_back_may_ask_again_and_a_failure_is_raised_where_it_is_taken():
    waiting, got = Waiting(at_once=1), []
    waiting.ask("a", lambda: 1, lambda one: waiting.ask("a", lambda: one.get() // 0, lambda two: got.append(two)))
    waiting.take(block=True)
    waiting.take(block=True)
    with pytest.raises(ZeroDivisionError):
        got[0].get()
    assert not waiting


def test_one_question_per_key():
    waiting, gate = Waiting(at_once=1), threading.Event()
    waiting.ask("a", lambda: gate.wait(20), lambda _: None)
    with pytest.raises(KeyError):
        waiting.ask("a", lambda: 2, lambda _: None)
    gate.set()
    waiting.take(block=True)
