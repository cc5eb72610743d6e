"""The environment `verified_answers`: a problem, one answer, and whether it is right.

world = AnswerWorld(VerifiedAnswers(source="arithmetic"))
task = world.task("train", 0)                     # "3 + 4 = ?"
session = world.reset(task)
session.hear("the answer is 7")                   # what the agent said
session.measure()                                 # {"verified": 1, "answered": 1, "dropped_rows": 0}
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from rlspec.compiler.catalog.answers import VerifiedAnswers
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Call, Message, Observation, Task

SPLITS = ("train", "test")
SYSTEM = "solve the problem ; say the answer last"
GYM = "reasoning-gym/"
SEARCHED = 100_000
"""Problems that are looked through for one of a split, before the split counts as empty."""
LARGEST = {"easy": 9, "any": 9, "medium": 30, "hard": 99}
"""The largest number in a sum of `arithmetic`."""

_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_MARKED = re.compile(r"\banswer\b\s*(?:is\b)?\s*[:=]?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its answer; `entry` is what a data set needs to check another spelling of it."""

    question: str
    answer: str
    entry: Any = None


def answer_in(text: str) -> str:
    """The answer that a message gives: the last `\\boxed{...}`; else what follows the last "answer"; else its last
    number; else all of it."""
    if boxed := _BOXED.findall(text):
        return str(boxed[-1]).strip()
    marks = list(_MARKED.finditer(text))
    if marks and (said := text[marks[-1].end() :].strip()):
        return said.splitlines()[0].strip()
    numbers = _NUMBER.findall(text)
    return str(numbers[-1]).strip() if numbers else text.strip()


def plain(text: str) -> str:
    """An answer without what has no meaning: white space, dollar signs, a full stop at the end, capitals."""
    return re.sub(r"[\s$]", "", text).rstrip(".").casefold()


def number(text: str) -> Fraction | None:
    """The number that a text is: decimals, fractions, thousands with commas; None where it is none."""
    found = re.fullmatch(r"([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?:/(\d+))?", plain(text))
    if found is None or len(found[0]) > 200 or (found[2] and not int(found[2])):
        return None
    return Fraction(found[1].replace(",", "")) / int(found[2] or 1)


def right(said: str, answer: str) -> bool:
    """Whether two answers are the same, as numbers where both are, else as texts."""
    mine, theirs = number(said), number(answer)
    return mine == theirs if mine is not None and theirs is not None else plain(said) == plain(answer)


class AnswerSession:
    """One problem and what was said to it."""

    def __init__(self, problem: Problem, dropped: int, check: Callable[[str, Problem], bool], said: str = "") -> None:
        self._problem, self._dropped, self._check, self._said = problem, dropped, check, said

    def step(self, call: Call) -> Observation:
        """There are no tools."""
        return Observation(json.dumps({"error": "there are no tools"}), "error")

    def hear(self, agent_text: str) -> None:
        """What the agent says; its last message counts."""
        self._said = agent_text

    def cut(self) -> None:
        """An answer that was cut off is read as far as it goes."""

    def fork(self) -> AnswerSession:
        return AnswerSession(self._problem, self._dropped, self._check, self._said)

    def measure(self) -> dict[str, Any]:
        """The signals of `VerifiedAnswers.MEASURES`."""
        said = answer_in(self._said)
        return {
            "verified": int(bool(said) and self._check(said, self._problem)),
            "answered": int(bool(said)),
            "dropped_rows": self._dropped,
        }

    def close(self) -> None:
        """Nothing is held."""


class AnswerWorld:
    """The problems that the component names.

    Raises:
        Refusal: the source cannot be read, is not installed, or has no problem of that difficulty.
    """

    def __init__(self, config: VerifiedAnswers) -> None:
        self.config = config
        self.dropped = 0
        self._check: Callable[[str, Problem], bool] = lambda said, problem: right(said, problem.answer)
        self._found: dict[str, list[Problem]] = {split: [] for split in SPLITS}
        self._rows: list[Problem] = []
        self._next = 0
        if config.source == "arithmetic":
            self._at: Callable[[int], Problem] = self._sum
        elif config.source.startswith(GYM):
            self._at = self._of_gym()
        else:
            self._rows = self._read(Path(config.source))
            self._at = lambda place: self._rows[place]

    @property
    def system(self) -> str:
        """What every agent is told."""
        return SYSTEM

    @property
    def tools(self) -> Sequence[dict[str, Any]]:
        """None."""
        return []

    def task(self, split: str, number: int) -> Task:
        """The `number`-th problem of a split; the problems of a file come round again.

        Raises:
            ValueError: there is no such split or number.
            Refusal: RLC0505, the split has no problem.
        """
        if split not in SPLITS or number < 0:
            raise ValueError(f"no task {number} in split {split!r}: splits are {', '.join(SPLITS)}, numbers start at 0")
        problem = self._problem(split, number)
        return Task(f"answers.{split}.{number}", split, problem.question, (), {"problem": problem})

    def reset(self, task: Task) -> AnswerSession:
        """A session for a task's problem."""
        return AnswerSession(task.payload["problem"], self.dropped, self._check)

    def demonstration(self, number: int, seed: int) -> list[Message]:
        """A problem of the training split with an answer: its own, or in the declared share that of another problem."""
        problem = self._problem("train", number)
        rng = stream(seed, "answers", "demonstration", number)
        own = rng.random() < self.config.shown_right
        answer = problem.answer if own else self._problem("train", int(rng.integers(256))).answer
        return [Message("user", problem.question), Message("agent", f"answer : {answer}")]

    # -------------------------------------------------------------------------------------------------- problems

    def _problem(self, split: str, number: int) -> Problem:
        found = self._found[split]
        if self._rows:
            for place in range(self._next, len(self._rows)):
                self._found[self._split_of(self._rows[place])].append(self._rows[place])
            self._next = len(self._rows)
            if not found:
                raise self._empty(split)
            turn, place = divmod(number, len(found))
            return found[int(stream(self.config.seed, "answers", split, turn).permutation(len(found))[place])]
        looked = 0
        while len(found) <= number:
            problem = self._at(self._next)
            self._next += 1
            self._found[self._split_of(problem)].append(problem)
            looked = 0 if self._found[split] is found and found[-1:] == [problem] else looked + 1
            if looked > SEARCHED:
                raise self._empty(split)
        return found[number]

    def _empty(self, split: str) -> Refusal:
        return Refusal("RLC0505", f"`{self.config.source}` has no problem in the split {split}", "change `test_share`")

    def _split_of(self, problem: Problem) -> str:
        draw = int.from_bytes(hashlib.blake2b(problem.question.encode(), digest_size=8).digest(), "big") / 2**64
        return "test" if draw < self.config.test_share else "train"

    def _sum(self, place: int) -> Problem:
        rng = stream(self.config.seed, "answers", "arithmetic", place)
        a, b = (int(n) for n in rng.integers(0, LARGEST[self.config.difficulty] + 1, 2))
        if rng.random() < 0.5:
            return Problem(f"{a} + {b} = ?", str(a + b))
        return Problem(f"{max(a, b)} - {min(a, b)} = ?", str(max(a, b) - min(a, b)))

    def _of_gym(self) -> Callable[[int], Problem]:
        name = self.config.source.removeprefix(GYM)
        try:
            import reasoning_gym
        except ImportError as error:
            raise Refusal("RLC0505", f"`{self.config.source}` needs the package reasoning-gym: {error}",
                          'install it: pip install "rlspec[answers]"') from error  # fmt: skip
        settings = dict(part.split("=", 1) for part in self.config.settings)
        try:
            found = reasoning_gym.create_dataset(
                name, seed=self.config.seed, size=10**9, **{key: json.loads(value) for key, value in settings.items()}
            )
        except (AssertionError, TypeError, ValueError) as error:
            raise Refusal("RLC0505", f"reasoning-gym makes no `{name}`: {error}",
                          "name one of its data sets, and settings that it has") from error  # fmt: skip
        self._check = lambda said, problem: bool(
            right(said, problem.answer) or found.score_answer(said, problem.entry) >= 1.0
        )

        def at(place: int) -> Problem:
            entry = found[place]
            return Problem(str(entry["question"]), str(entry["answer"]), entry)

        return at

    def _read(self, path: Path) -> list[Problem]:
        wanted, out = self.config.difficulty, []
        for line, row in _rows(path):
            problem, answer = ("" if row.get(n) is None else str(row[n]) for n in ("problem", "answer"))
            if not problem.strip() or not answer.strip():
                self.dropped += 1
                continue
            if wanted != "any":
                if "difficulty" not in row:
                    raise Refusal("RLC0505", f"{path}:{line}: the row does not say its difficulty",
                                  "write `difficulty = any`, or add the field `difficulty`")  # fmt: skip
                if row["difficulty"] != wanted:
                    continue
            out.append(Problem(problem.strip(), answer.strip()))
        if not out:
            raise Refusal("RLC0505", f"{path} has no problem with an answer of difficulty {wanted}",
                          "rows need the fields `problem` and `answer`")  # fmt: skip
        return out


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a JSONL file with their line numbers."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"{path}: {error}",
                      "`source` is `arithmetic`, `reasoning-gym/NAME`, or a JSONL file") from error  # fmt: skip
    for place, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise Refusal("RLC0711", f"{path}:{place}: {error}", "one JSON object per line") from error
            if not isinstance(row, dict):
                raise Refusal("RLC0711", f"{path}:{place}: no object", "one JSON object per line")
            yield place, row
