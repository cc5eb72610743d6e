"""Fuzzes the front end: any text, through everything that reads one, must end in time, with a result or diagnostics,
and must touch no file or network on the way.

    python bench/language/fuzz.py --replay                       # the kept seeds, without atheris
    bash bench/language/make_fuzz_env.sh                         # an environment with atheris
    bench/language/.venv/bin/python bench/language/fuzz.py --minutes 10 --out /tmp/fuzz
    python bench/language/fuzz.py --keep /tmp/fuzz               # put what was found into the kept seeds

An input is a target's name, a line end, and a text (UTF-8, what is not is replaced). atheris guides the search by
coverage of `rlspec.dsl` and `rlspec.compiler`; half of the mutations are its own, of bytes, the other half replace,
drop, double and swap the language's tokens and splice in pieces of the repository's specs. A finding does not stop the
search: the first input of each kind (exception and place) is written to `--out`.

Watched are, through an audit hook, files opened, folders listed, processes started and sockets. The files that a spec
names (`extends`, `use`) come from memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "tests" / "dsl" / "fuzz_seeds.json"
DEADLINE = 10.0  # seconds of the processor for one input
LONGEST = 6000  # bytes; longer texts cost time and find nothing new

sys.setrecursionlimit(1000)  # Python's own: what recurses more deeply would end a user's process


class Hang(Exception):
    """An input took longer than the deadline."""


class Reached(Exception):
    """An input made the front end reach for a file, a process or the network."""


# ------------------------------------------------------------------------------------------------------ watching

WATCHED = ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.system", "os.exec",
           "os.posix_spawn", "os.fork", "os.forkpty", "subprocess.Popen", "socket.", "shutil.", "tempfile.", "urllib.",
           "ctypes.dlopen", "webbrowser.", "glob.")  # fmt: skip
# what the product reads of its own: the style sheet and templates of pages, the standard library
OWN = (str(ROOT / "compiler" / "showing"), str(ROOT / "specs" / "std"))


class Watch:
    """Raises on events outside of the front end's own business while `on`."""

    def __init__(self) -> None:
        self.on = False
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or not event.startswith(WATCHED):
            return
        if event in ("open", "os.scandir", "os.listdir") and os.path.realpath(str(arguments[0])).startswith(OWN):
            return
        self.on = False
        raise Reached(f"{event}: {str(arguments[0])[:80]!r}")


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    def late(signum: int, frame: Any) -> None:
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# ------------------------------------------------------------------------------------------------------- targets

Target = Callable[[str], None]


def targets() -> dict[str, Target]:
    """Everything that reads a user's text. Imported here, so that atheris has instrumented the modules."""
    from dataclasses import replace

    from rlspec.compiler import check as front
    from rlspec.compiler.diff import difference
    from rlspec.compiler.digests import side_of
    from rlspec.compiler.showing.page import html_page, markdown_page
    from rlspec.compiler.showing.sheet import sheet
    from rlspec.compiler.spectest import evaluated
    from rlspec.compiler.whence import chain, paths, rendered
    from rlspec.dsl import parser
    from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, as_json, render
    from rlspec.dsl.fixes import applied
    from rlspec.dsl.format import formatted
    from rlspec.dsl.printer import text_of
    from rlspec.dsl.sarif import github, sarif

    base = Source("base.rlspec", (ROOT / "tests" / "sample.rlspec").read_text("utf-8"))
    experiment = front.check(base).experiment
    assert experiment is not None

    def beside(name: str) -> Source:
        """What `extends` and `use` may read: one sound file, whatever its name, so that no file is opened."""
        if "missing" in name:
            raise SpecError([Diagnostic("RLC0701", f"there is no file `{name}`")])
        return Source(name, base.text, opener=beside)

    def fuzzed(text: str, name: str = "fuzz.rlspec") -> Source:
        return Source(name, text, opener=beside)

    def shown(diagnostics: list[Diagnostic], source: Source) -> None:
        for diagnostic in diagnostics:
            assert render(diagnostic, source)
            github(diagnostic, source)
            where, span = diagnostic.source or source, diagnostic.span
            assert span is None or 0 <= span.start <= span.stop <= len(where.text)
        json.dumps([as_json(d, source) for d in diagnostics])
        json.dumps(sarif([(d, source) for d in diagnostics], "0"))

    def parse(text: str) -> None:
        source = fuzzed(text)
        file, found = parser.parse(source)
        shown(found, source)
        assert repr(file)
        try:
            once = formatted(source)
        except SpecError:
            if not found:
                raise
            return
        again = Source("fuzz.rlspec", once)
        assert formatted(again) == once, "a second pass of the formatter changes the text"

    def check(text: str) -> None:
        source = fuzzed(text)
        found = front.check_whole(source)
        shown(found.diagnostics, source)
        fixes = [d.fix for d in found.diagnostics if d.fix is not None and d.source in (None, source)]
        applied(text, fixes)
        if found.experiment is not None:
            for path in paths(found.composition.layers[-1].body)[:40]:
                try:
                    rendered(chain(found.composition, path))
                except SpecError as error:
                    shown(list(error.diagnostics), source)
        if found.plan is None:
            assert found.errors
            return
        front.run_tests(found)

    def expression(text: str) -> None:
        said, _, givens = text.partition("\n--given ")
        try:
            evaluated(experiment, said, [g for g in givens.split("\n--given ") if g], None)
        except SpecError as error:
            shown(list(error.diagnostics), Source("expression", said))
        source = Source("expression", said)
        node, found = parser.parse_expression(source)
        assert (node is None) == bool(found)
        if node is not None:
            again, problems = parser.parse_expression(Source("again", text_of(node)))
            assert again is not None, problems
            assert text_of(again) == text_of(node), "the printer's text reads as another tree"
        parser.parse_type(source)

    def overlay(text: str) -> None:
        other = fuzzed(text, "over.rlspec")
        shown(front.check(base, overlays=[other]).diagnostics, base)

    def setting(text: str) -> None:
        name, _, value = text.partition("=")
        try:
            given = front.settings_of({name: value})
        except SpecError as error:
            shown(list(error.diagnostics), base)
            return
        shown(front.check(base, given).diagnostics, base)

    def diff(text: str) -> None:
        try:
            a, b = side_of(base), side_of(fuzzed(text))
        except SpecError as error:
            shown(list(error.diagnostics), base)
            return
        found = difference(a, b)
        assert found.verified
        assert found.equal == (a.form.digest == b.form.digest)
        assert replace(found).rows == found.rows

    def page(text: str) -> None:
        try:
            made = sheet(fuzzed(text), {}, None, [])
        except SpecError as error:
            shown(list(error.diagnostics), base)
            return
        assert markdown_page(made)
        assert html_page(made)

    return {"parse": parse, "check": check, "expression": expression, "overlay": overlay, "setting": setting,
            "diff": diff, "page": page, **_merging()}  # fmt: skip


def _merging() -> dict[str, Target]:
    """Three-way merges, of two texts that both come from the sample: `mine`, a line `=======`, `theirs`."""
    from rlspec.dsl.diagnostics import Source, SpecError

    try:
        from rlspec.compiler.merging import merged
    except ImportError:
        return {}
    base = Source("base.rlspec", (ROOT / "tests" / "sample.rlspec").read_text("utf-8"))

    def merge(text: str) -> None:
        mine, _, theirs = text.partition("\n=======\n")
        try:
            merged(base, Source("mine.rlspec", mine), Source("theirs.rlspec", theirs or base.text), "x.rlspec")
        except SpecError as error:
            if not error.diagnostics:
                raise

    return {"merge": merge}


class Runner:
    """Runs inputs and remembers the first of each kind of finding."""

    def __init__(self, seconds: float = DEADLINE) -> None:
        self.targets, self.watch, self.seconds = targets(), Watch(), seconds
        self.findings: dict[str, tuple[str, str, str]] = {}
        self.slowest, self.count = (0.0, ""), 0
        self.new: list[bytes] = []

    def run(self, name: str, text: str) -> str | None:
        """The finding's key, or None when all is well."""
        if (target := self.targets.get(name)) is None:
            return None
        began, self.count = time.process_time(), self.count + 1
        try:
            with deadline(self.seconds):
                self.watch.on = True
                target(text)
        except Exception as error:
            self.watch.on = False
            frames = traceback.extract_tb(error.__traceback__)
            own = [f for f in frames if "rlspec" in f.filename or str(ROOT) in f.filename]
            place = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"
            kind = f"{type(error).__name__} in {place}" if not isinstance(error, Hang) else f"Hang in {name}"
            if kind not in self.findings:
                self.findings[kind] = (name, text, "".join(traceback.format_exception(error))[-4000:])
                self.new.append(pack(name, text))
            return kind
        finally:
            self.watch.on = False
            spent = time.process_time() - began
            if spent > self.slowest[0]:
                self.slowest = (spent, name + "\n" + text)
        return None


def pack(name: str, text: str) -> bytes:
    return name.encode() + b"\n" + text.encode("utf-8", "surrogatepass")


def unpack(data: bytes) -> tuple[str, str]:
    name, _, text = data.partition(b"\n")
    return name.decode("utf-8", "replace"), text.decode("utf-8", "replace")


# --------------------------------------------------------------------------------------------------------- seeds


def pieces() -> list[str]:
    """The items of the repository's specs, each with all its lines, and its examples of every code."""
    from rlspec.dsl.diagnostics import Source
    from rlspec.dsl.explanations import completed, explanations
    from rlspec.dsl.parser import parse

    out: list[str] = []
    for path in sorted(p for places in ("specs/**", "examples", "tests") for p in ROOT.glob(f"{places}/*.rlspec")):
        text = path.read_text("utf-8")
        for item in parse(Source("", text))[0].items:
            out += [text[i.span.start : i.span.stop] for i in (item.body or (item,))]
    for said in explanations().values():
        out += [completed(e) for e in (said.bad, said.good) if e is not None and len(e.text) < 500]
    return [p for p in out if len(p) < LONGEST]


def first_seeds() -> list[bytes]:
    """What the search begins with."""
    sample = (ROOT / "tests" / "sample.rlspec").read_text("utf-8")
    wholes = [p for p in pieces() if p.startswith("rlspec")]
    out = [pack(name, sample) for name in ("parse", "check", "diff", "page")]
    out += [pack("check", w) for w in wholes]
    out += [pack("overlay", "rlspec = 1\noverlay o { patch.stage.train { steps = 5steps  lr = 1e-3 } }\n")]
    out += [pack("setting", "k=0.5"), pack("merge", sample.replace("3e-4", "1e-4") + "\n=======\n" + sample)]
    scored = "R\n--given outcome=[0, 1]\n--given verdict=[[1, -1], [0]]"
    scans = "suffix_sum(verdict over turn, discount = 0.9) + mean(verdict over turn where verdict != 0)"
    other = "if outcome == 1 then by(outcome, a = 1) else -2 ^ 3.5e2"
    out += [pack("expression", e) for e in ("R", "zscore(R over traj)", scored, scans, other, "int@turn in {-1, 0, 1}")]
    return out


def kept() -> list[tuple[str, str]]:
    return [(name, text) for name, text in json.loads(SEEDS.read_text("utf-8"))] if SEEDS.exists() else []


def keep(folder: Path, most: int = 160, longest: int = 900) -> int:
    """Merge small inputs of a search's corpus and all its findings into the kept seeds; how many are kept."""
    rng = random.Random(0)
    found = {unpack(p.read_bytes()) for p in (folder / "findings").glob("*")}
    corpus = [unpack(p.read_bytes()) for p in sorted((folder / "corpus").glob("*")) if p.stat().st_size <= longest]
    rng.shuffle(corpus)
    seeds = list(dict.fromkeys([*kept(), *sorted(found)]))
    names = {name for name, _ in corpus}
    for name in sorted(names):
        own = [s for s in corpus if s[0] == name]
        seeds += [s for s in own[: most // max(len(names), 1)] if s not in seeds]
    SEEDS.write_text(json.dumps(seeds, indent=0, ensure_ascii=True) + "\n", encoding="utf-8")
    return len(seeds)


# -------------------------------------------------------------------------------------------------------- search

_PIECES = re.compile(r'"[^"\n]*"|#[^\n]*|\w+|\s+|[^\w\s]')
SPELT = """{ } ( ) [ ] = : , . @ + - * / ^ == in and or not if then else over where align extends on def true
0 1 -1 1e308 1e-308 35% 3agent_turns 2trajs step group traj turn token real int bool text sum mean any zscore rank
suffix_sum gae clip num index by indicator log exp reported anneal top variant sweep overlay patch remove test given
expect claims assert signal reward advantage let param mix tasks env verified use experiment """
WORDS = (*SPELT.split(), '"', "#", "\n", "9" * 20, "\u00e9", "\u2028", "\x00", "<<<<<<< a\n")


def mutated(text: str, rng: random.Random, stock: list[str]) -> str:
    """A few edits of whole tokens."""
    parts = _PIECES.findall(text) or [""]
    for _ in range(rng.choice((1, 1, 2, 3, 5, 8))):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        match rng.randrange(7):
            case 0:
                parts[at] = ""
            case 1:
                parts[at] = rng.choice(WORDS)
            case 2:
                parts.insert(at, " " + rng.choice(WORDS) + " ")
            case 3:
                parts[at], parts[other] = parts[other], parts[at]
            case 4:
                parts[at:at] = parts[other : other + rng.randrange(1, 12)]
            case 5:
                parts.insert(at, "\n" + rng.choice(stock) + "\n")
            case 6:
                del parts[at : at + rng.randrange(1, 12)]
        parts = parts or [""]
    return "".join(parts)


def search(minutes: float, out: Path, seed: int) -> int:
    """Let atheris search; it ends the process, so everything is written before."""
    import atheris

    with atheris.instrument_imports(include=["rlspec.dsl", "rlspec.compiler"]):
        runner = Runner(3 * DEADLINE)  # instrumented code is slower
    stock = pieces()
    for name, text in [*kept(), *map(unpack, first_seeds())]:
        runner.watch.on = False
        runner.targets.get(name, lambda _: None)(text)  # unwatched: lazy imports and tables are read once
    corpus, findings = out / "corpus", out / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    for data in [*first_seeds(), *(pack(*s) for s in kept())]:
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    began = time.process_time()

    def one(data: bytes) -> None:
        runner.run(*unpack(data[: 2 * LONGEST]))
        for found in runner.new:
            (findings / hashlib.sha256(found).hexdigest()[:16]).write_bytes(found)
        runner.new.clear()
        if runner.count % 200 == 0:
            _report(runner, out, time.process_time() - began)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        name, text = unpack(data)
        if name not in runner.targets or rng.random() < 0.02:
            name = rng.choice(sorted(runner.targets))
        if rng.random() < 0.5:
            changed = mutated(text, rng, stock).encode("utf-8", "replace")
        else:
            changed = atheris.Mutate(text.encode("utf-8", "replace"), most)
        return (name.encode() + b"\n" + changed)[:most]

    arguments = [sys.argv[0], str(corpus), f"-max_len={LONGEST}", f"-seed={seed + 1}"]
    arguments += ["-rss_limit_mb=4000", "-timeout=600", "-verbosity=0"]

    def until(data: bytes) -> None:
        one(data)
        if time.process_time() - began > 60 * minutes:
            _report(runner, out, time.process_time() - began)
            os._exit(1 if runner.findings else 0)

    atheris.Setup(arguments, until, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


def _report(runner: Runner, out: Path, spent: float) -> None:
    covered = len(list((out / "corpus").glob("*")))
    lines = [
        f"{runner.count:,} inputs in {spent / 60:.1f} minutes of the processor; {len(runner.findings)} findings; "
        f"slowest {runner.slowest[0]:.2f} s; {covered} inputs in the corpus"
    ]
    lines += [f"\n## {kind}\n{name}\n{text[:600]!r}\n{trace}" for kind, (name, text, trace) in runner.findings.items()]
    (out / "report.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "slowest.txt").write_text(runner.slowest[1], encoding="utf-8")


def replay() -> int:
    """The kept seeds and the first ones, twice: what is imported or read lazily is there before the watch begins."""
    runner = Runner()
    seeds = [*kept(), *map(unpack, first_seeds())]
    for name, text in map(unpack, first_seeds()):
        runner.targets.get(name, lambda _: None)(text)
    for name, text in seeds:
        runner.run(name, text)
    for kind, (name, text, trace) in runner.findings.items():
        print(f"## {kind}\n{name}: {text[:400]!r}\n{trace}")
    print(f"{runner.count} inputs, {len(runner.findings)} findings, slowest {runner.slowest[0]:.2f} s")
    return 1 if runner.findings else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--replay", action="store_true")
    options.add_argument("--minutes", type=float, default=10, help="of the processor")
    options.add_argument("--out", type=Path, default=Path("fuzz-out"))
    options.add_argument("--keep", type=Path, metavar="OUT")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    if asked.keep is not None:
        print(f"{keep(asked.keep)} seeds kept")
        return 0
    return replay() if asked.replay else search(asked.minutes, asked.out, asked.seed)


if __name__ == "__main__":
    sys.exit(main())
