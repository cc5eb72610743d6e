"""Diagnosis: where an attempt went wrong first, and what may be said about it.

A pure function of the gold calls, the tools' schemas and the dialogue. In the order of the dialogue, a fault is a call
that cannot be parsed or that its tool's schema refuses (route `format`), a call that the environment refused, or a call
that changed the state and is no gold call (route `semantic`); an attempt without one that still failed left something
undone. The texts are the spec's (`feedback { ... }`); one that would give away a gold argument's value is not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rlspec.compiler.catalog.resampling import Feedback
from rlspec.compiler.catalog.tiers import DeepEqual
from rlspec.runtime.worlds.call_match import Schemas
from rlspec.runtime.worlds.equality import Form, canonical, shared
from rlspec.runtime.worlds.leaks import leaked
from rlspec.runtime.worlds.protocol import Call, Message, Task, answer_to

RULES = DeepEqual()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`place` is the index in the dialogue of the faulty message (its length: the end), `route` which kind of fault it
    is, `text` what is said, `leaks` how many gold values the first wording would have given away."""

    place: int
    route: Literal["format", "semantic"]
    text: str
    leaks: int = 0


def diagnose(task: Task, tools: Sequence[Mapping[str, Any]], dialogue: Sequence[Message], says: Feedback) -> Diagnosis:
    """The first fault of a failed attempt."""
    schemas = Schemas(task.tools if task.tools is not None else tools)
    left = list(task.gold)
    for place, message in enumerate(dialogue):
        if message.role != "agent":
            continue
        answer = answer_to(dialogue, place)
        own = answer.text if says.own_words and answer.role == "tool" and answer.status == "error" else ""
        if message.malformed is not None or (message.call is not None and not schemas.accept(message.call)):
            return _said(place, "format", own or says.malformed, says, task)
        if message.call is None:
            continue
        equal = next((g for g in left if g.name == message.call.name and _form(g) == _form(message.call)), None)
        if equal is not None and answer.status != "error":
            left.remove(equal)
        elif answer.status == "error" or answer.wrote:
            text = own or _wording(message.call, left, answer.status == "error", says)
            return _said(place, "semantic", text, says, task)
    return _said(len(dialogue), "semantic", says.unfinished if left else says.anything, says, task)


def _wording(call: Call, left: Sequence[Call], refused: bool, says: Feedback) -> str:
    """What is wrong with a call beside the gold call of its tool that it is most like."""
    like = [g for g in left if g.name == call.name]
    if not like:
        return (says.refused if refused else says.unwanted).format(tool=call.name, argument="")
    gold = max(like, key=lambda g: shared(_form(call), _form(g)))
    for text, argument in _differences(call, gold, says):
        return text.format(tool=call.name, argument=argument)
    return says.refused.format(tool=call.name, argument="")


def _differences(call: Call, gold: Call, says: Feedback) -> Iterator[tuple[str, str]]:
    for name, value in gold.arguments.items():
        if name not in call.arguments:
            yield says.missing, name
        elif canonical(call.arguments[name], RULES) != canonical(value, RULES):
            yield says.wrong, name
    for name in call.arguments:
        if name not in gold.arguments:
            yield says.superfluous, name


def _said(place: int, route: Literal["format", "semantic"], text: str, says: Feedback, task: Task) -> Diagnosis:
    leaks = len(leaked(text, task.gold))
    said = says.anything if leaks else text
    return Diagnosis(place, route, "" if leaked(said, task.gold) else said, leaks)


def _form(call: Call) -> Form:
    return canonical(call.arguments, RULES)
