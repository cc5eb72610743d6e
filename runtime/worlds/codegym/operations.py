"""What a forked child does with written code: one step, reference answers, solutions, replays, attempts, a search.

Loaded by `zygote.py` beside it, inside the clean interpreter; imports nothing of rlspec. Everything here runs behind
the seccomp filter, in one process with the written code, so the code can lie about its own environment; it cannot reach
another one, and whether an answer is right is decided elsewhere.
"""

import ast
import bisect
import builtins
import collections
import ctypes
import functools
import heapq
import itertools
import json
import math
import os
import string

MODULES = {module.__name__: module for module in (math, itertools, functools, collections, heapq, bisect, string)}
TEXT_LIMIT = 2_000
LIBC = ctypes.CDLL(None, use_errno=True)


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    if level or name not in MODULES:
        raise ImportError(f"{name} is not among the modules that may be imported")
    return MODULES[name]


def namespace(names):
    allowed = {name: getattr(builtins, name) for name in names if hasattr(builtins, name)}
    return {"__builtins__": {**allowed, "__import__": _import, "__build_class__": None}, "__name__": "environment"}


def _plain(value):
    """A JSON value of what code returned."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, collections.deque)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(v) for v in value), key=repr)
    if isinstance(value, dict):
        return {k if isinstance(k, str) else json.dumps(_plain(k)): _plain(v) for k, v in value.items()}
    raise TypeError(f"a {type(value).__name__} is no plain value")


def _text(value):
    """A result as the agent sees it."""
    if value is None:
        return "ok"
    shown = value if isinstance(value, str) else json.dumps(_plain(value))
    return shown if len(shown) <= TEXT_LIMIT else shown[:TEXT_LIMIT] + " ..."


def _loaded(text):
    """A state: JSON, or a Python literal (which is slower) where JSON cannot say it."""
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)


def _saved(value):
    """What `_loaded` reads back."""
    if _is_json(value):
        return json.dumps(value)
    text = repr(value)
    ast.literal_eval(text)
    return text


def _is_json(value):
    kind = type(value)
    if kind is dict:
        return all(type(k) is str for k in value) and all(map(_is_json, value.values()))
    if kind is list:
        return all(map(_is_json, value))
    return kind in (int, str, bool, type(None)) or (kind is float and math.isfinite(value))


def failure(error):
    if isinstance(error, MemoryError):
        return "MemoryError: the call took too much memory"
    said = str(error) if not isinstance(error, KeyError) else f"no {error}"
    return f"{type(error).__name__}: {said}"[:200]


class _Gym:
    """Tools over a state, in this process."""

    def __init__(self, space, job):
        self.space, self.tools = space, job["tools"]
        self.state = _loaded(job["state"])
        self.calls = []
        self.most = job.get("most", 1)

    def call(self, name, arguments):
        tool = self.tools[name]
        bound = {p: self.state[of] for p, of in tool["bound"].items()}
        return self.space[tool["function"]](**bound, **arguments)

    def acted(self, name, **arguments):
        """`tool_` of solutions."""
        if len(self.calls) >= self.most:
            raise RuntimeError(f"more than {self.most} calls")
        self.calls.append([name, arguments])
        return self.call(name, arguments)

    def each(self, count, get):
        """`each_` of solutions: a loop over a hidden sequence."""
        for place in range(self.acted(count)):
            yield self.acted(get, index=place)

    def tried(self, name, arguments):
        """A call whose failure leaves the state as it was: (did it work, text)."""
        before = _saved(self.state)
        try:
            return True, _text(self.call(name, arguments))
        except Exception as error:
            self.state = _loaded(before)
            return False, failure(error)


def _step(fresh, job):
    gym = _Gym(fresh(), job)
    text = _text(gym.call(job["name"], job["arguments"]))
    state = _saved(gym.state)
    if len(state) > job["state_limit"]:
        raise MemoryError
    return {"text": text, "state": state}


def _reference(fresh, job):
    return {"answer": _plain(fresh()[job["main"]](**_loaded(job["state"])))}


def _solve(fresh, job):
    """A solution sees the tools and nothing else: its names are not those of the module."""
    gym, own = _Gym(fresh(), job), fresh(1)
    own["tool_"], own["each_"] = gym.acted, gym.each
    answer = _plain(own[job["main"]]())
    return {"calls": [[n, {k: _plain(v) for k, v in a.items()}] for n, a in gym.calls], "answer": answer}


def _replay(fresh, job):
    gym = _Gym(fresh(), job)
    return {
        "observations": [gym.tried(name, arguments) for name, arguments in job["calls"]],
        "state": _saved(gym.state),
    }


def _each(operation):
    """An operation on many items in one child, each with functions of its own; one that fails is told apart. An item
    that never ends takes the whole batch with it, which is then done one by one."""

    def batch(fresh, job):
        results = []
        for item in job["items"]:
            try:
                results.append({"ok": True, **operation(fresh, {**job, **item})})
            except Exception as error:
                results.append({"ok": False, "error": failure(error)})
        return {"results": results}

    return batch


def _search(fresh, job):
    """A solution by search, for tasks whose tools only compute: look at everything there is to see, then apply the
    tools to what is known, breadth first, until the wanted value (`target`) appears. The calls are those that lead to
    it, in order."""
    gym = _Gym(fresh(), job)
    makes: dict[str, tuple] = {}  # what is known, as JSON -> (value, the calls that it takes)
    left = job["budget"]

    def learn(name, arguments, used):
        nonlocal left
        left -= 1
        try:
            value = _plain(gym.call(name, arguments))
            key = json.dumps(value)
        except Exception:
            return None
        if key not in makes or not used:
            path = [call for other in used for call in makes[json.dumps(other)][1]]
            calls = [*path, [name, arguments]]
            makes.setdefault(key, (value, [c for n, c in enumerate(calls) if c not in calls[:n]]))
        return value

    counts = [n for n, tool in gym.tools.items() if tool["observes"] and not tool["takes"]]
    sizes = {n.removeprefix("count_"): learn(n, {}, []) for n in counts}
    for name, tool in gym.tools.items():
        size = sizes.get(name.removeprefix("get_"))
        if tool["observes"] and list(tool["takes"]) == ["index"] and isinstance(size, int):
            for index in range(min(size, 64)):
                learn(name, {"index": index}, [])
    pure = [(n, t) for n, t in gym.tools.items() if not t["observes"] and not t["bound"]]
    target = json.dumps(job["target"])
    while target not in makes and left > 0:
        known = [value for value, _ in makes.values()]
        for name, tool in pure:
            fitting = [[v for v in known if _is(kind, v)] for kind in tool["takes"].values()]
            for values in itertools.product(*fitting):
                if left <= 0 or target in makes:
                    break
                learn(name, dict(zip(tool["takes"], values, strict=True)), values)
        if len(makes) == len(known):
            break
    if target not in makes:
        raise LookupError("the search found no way to the answer")
    return {"calls": makes[target][1], "answer": job["target"]}


class _Dice:
    """Small deterministic random numbers (xorshift64*), so that no module has to be loaded for them."""

    def __init__(self, seed):
        self.at = (seed * 0x9E3779B97F4A7C15 + 1) & 0xFFFFFFFFFFFFFFFF or 1

    def below(self, n):
        x = self.at
        x ^= x >> 12
        x ^= (x << 25) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 27
        self.at = x
        return ((x * 0x2545F4914F6CDD1D) & 0xFFFFFFFFFFFFFFFF) % n if n else 0

    def one(self, items):
        return items[self.below(len(items))]


def _draw(kind, seen, dice):
    """An argument of a type: something that was seen, or something small."""
    fitting = [v for v in seen if _is(kind, v)]
    if fitting and dice.below(4):
        return dice.one(fitting)
    if kind == "bool":
        return bool(dice.below(2))
    if kind in ("int", "float"):
        return dice.below(10)
    if kind == "str":
        return dice.one("abc")
    return dice.one(fitting) if fitting else []


def _is(kind, value):
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "float"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, (list, dict))


def _play(fresh, job):
    """An attempt of the random policy: calls with arguments that it has seen or that are small, then an answer of the
    right type, mostly what it saw last."""
    gym, dice = _Gym(fresh(), job), _Dice(job["seed"])
    seen: list = []
    calls = 0
    names = sorted(gym.tools)
    length = job["fewest"] + dice.below(max(1, job["most"] - job["fewest"]))
    while calls < length and names:
        name = dice.one(names)
        arguments = {p: _draw(kind, seen, dice) for p, kind in gym.tools[name]["takes"].items()}
        before = _saved(gym.state)
        try:
            result = gym.call(name, arguments)
            if result is not None:
                seen.append(_plain(result))
        except Exception:
            gym.state = _loaded(before)
        calls += 1
    fitting = [v for v in seen if _is(job["answer_type"], v)]
    answer = fitting[-1] if fitting and dice.below(2) else _draw(job["answer_type"], seen, dice)
    return {"answer": answer, "calls": calls}


def _probe(fresh, job):
    """What is still possible in here, by trying it."""
    found = []
    for name, attempt in (
        ("read a file", lambda: os.close(os.open("/proc/self/statm", os.O_RDONLY))),
        ("list a folder", lambda: os.listdir("/")),
        ("open a socket", lambda: _negative(LIBC.socket(2, 1, 0))),
        ("send a signal", lambda: os.kill(os.getppid(), 0)),
        ("change its directory", lambda: os.chdir("/tmp")),
        ("start a process", lambda: os._exit(0) if os.fork() == 0 else None),
    ):
        try:
            attempt()
            found.append(name)
        except OSError:
            continue
    return {"open": found}


def _negative(result):
    if result < 0:
        raise OSError("refused")


OPERATIONS = {
    "step": _step,
    "reference": _each(_reference),
    "solve": _each(_solve),
    "replay": _each(_replay),
    "play": _each(_play),
    "search": _each(_search),
    "probe": _probe,
}
