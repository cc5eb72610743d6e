"""Explanations of the codes: what each means, why it matters, an example and its cure, from `explanations.md`.

explain("RLC0301").bad[0].text      # the declarations that are wrong
completed(explain("RLC0301").bad[0])  # a whole spec that has exactly that mistake
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rlspec.dsl.dataclass import dataclass

AREAS = {
    "00": "syntax", "01": "names", "02": "types", "03": "levels and units", "04": "ranges",
    "05": "stages, budgets, and lessons of the field", "06": "components", "07": "runs and files", "08": "claims",
    "09": "style and settings without effect",
}  # fmt: skip

FRAME = """\
policy agent : tiny { width = 64 }
env desk : shop { difficulty = 0 }
user customer : agenda { serves = [desk] }
judge turns : oracle { on = [desk]  flip = 5% }
signal outcome : int@traj in {0, 1} = env.verified
signal verdict : int@turn in {-1, 0, 1} = turns.score
reward R : real@traj = outcome - 0.1 * indicator(any(verdict == -1 over turn))
advantage A : real@traj = std.grpo(R)
credit = agent_tokens(A)
stage coldstart : sft { }
stage train : grpo { }
stage exam : evaluate { after = [coldstart, train] }
"""

_SECTION = re.compile(r"^## (RLC\d{4})\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```(bad|good|situation)( file)?(?: without=(\S+))?\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_HEAD = re.compile(r"(\w+) *(\w*)")


@dataclass(frozen=True, slots=True)
class Example:
    """Declarations, or with `whole` a file; `without` are declarations of the frame to leave out, `kind.label`."""

    text: str
    whole: bool
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """`situation` is set where only a run or a command line can go wrong, `good` where an example has a cure."""

    code: str
    text: str
    bad: Example | None
    good: Example | None
    situation: str


@cache
def explanations() -> dict[str, Explanation]:
    """All of them, by code."""
    page = Path(__file__).with_name("explanations.md").read_text(encoding="utf-8")
    return {code: _explanation(code, body) for code, body in _SECTION.findall(page)}


def _explanation(code: str, body: str) -> Explanation:
    blocks = {
        kind: Example(text, bool(whole), tuple(filter(None, without.split(","))))
        for kind, whole, without, text in _BLOCK.findall(body)
    }
    said = " ".join(_BLOCK.sub("", body).split())
    situation = blocks["situation"].text if "situation" in blocks else ""
    return Explanation(code, said, blocks.get("bad"), blocks.get("good"), situation)


def completed(example: Example) -> str:
    """The example as a whole spec: its declarations take the places of those of the frame."""
    if example.whole:
        return example.text + "\n"
    own = {_key(line): line for line in example.text.splitlines()}
    frame = {_key(line): line for line in FRAME.splitlines()}
    lines = [own.get(key, line) for key, line in frame.items() if key not in example.without]
    lines += [line for key, line in own.items() if key not in frame]
    return "rlspec = 1\nexperiment example {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _key(line: str) -> str:
    """`kind.label` of a declaration, or only its kind."""
    found = _HEAD.match(line)
    return "" if found is None else ".".join(filter(None, found.groups()))
