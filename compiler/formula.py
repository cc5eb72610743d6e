"""A program's results as formulas in the language's own notation, for people: in kernels' headers and in
reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlspec.compiler.pools import NEUTRAL
from rlspec.compiler.program import Program, Step

INFIX = {
    "or": (1, "or"),
    "and": (2, "and"),
    "eq": (4, "=="),
    "ne": (4, "!="),
    "lt": (4, "<"),
    "le": (4, "<="),
    "gt": (4, ">"),
    "ge": (4, ">="),
    "add": (5, "+"),
    "sub": (5, "-"),
    "mul": (6, "*"),
    "div": (6, "/"),
    "pow": (8, "^"),
}
ATOM = 9


def formula(program: Program, output: str, inputs: Mapping[str, str] | None = None) -> str:
    """One output's formula. Other outputs that it uses appear by their names, inputs by another name if one is given.

    >>> formula(program, "advantage")
    'zscore(reward over traj, ddof = 1, epsilon = 1e-06)'
    """
    at = program.outputs[output]
    names = {step: name for name, step in program.outputs.items() if step != at}
    steps = tuple(_renamed(step, inputs) for step in program.steps) if inputs else program.steps
    return _text(steps, at, names)[0]


def _renamed(step: Step, inputs: Mapping[str, str]) -> Step:
    known = inputs.get(step.attrs["name"]) if step.op == "input" else None
    return step if known is None else step.model_copy(update={"attrs": {"name": known}})


def step_text(program: Program, at: int) -> str:
    """One step's formula, written out."""
    return _text(program.steps, at, {})[0]


def number(value: float) -> str:
    """A float64 as people write it: whole numbers without a point."""
    return str(int(value)) if value == int(value or 0) and abs(value) < 1e16 else repr(value)


def _text(steps: tuple[Step, ...], at: int, names: dict[int, str]) -> tuple[str, int]:
    """The text of a step, and how tightly it binds."""
    step = steps[at]
    if at in names and step.op not in ("const", "input"):
        return names[at], ATOM
    args = [_text(steps, a, names) for a in step.args]
    plain = [text for text, _ in args]
    attrs = step.attrs
    match step.op:
        case "const":
            value = float(attrs["value"])
            text = number(value) if abs(value) < float("inf") else repr(value)
            return text, ATOM if value >= 0 else 7
        case "input":
            return attrs["name"], ATOM
        case "normalise":
            return f"{attrs['fn']}({plain[0]} over {axes_text(attrs['axes'])}{_rules(step)})", ATOM
        case "neg":
            return f"-{_bound(args[0], 7)}", 7
        case "not":
            return f"not {_bound(args[0], 3)}", 3
        case "select":
            return f"(if {plain[0]} then {plain[1]} else {plain[2]})", ATOM
        case op if op in INFIX:
            strength, sign = INFIX[op]
            left, right = (strength + 1, strength) if op == "pow" else (strength, strength + 1)
            return f"{_bound(args[0], left)} {sign} {_bound(args[1], right)}", strength
        case op:
            return call_text(op, attrs, plain), ATOM


def call_text(op: str, attrs: Mapping, plain: Sequence[str]) -> str:
    """A step that is written as a call or as a place in a table, of the texts of its arguments."""
    match op:
        case "index" | "num":
            return f"{op}({attrs['axis']})"
        case "reduce":
            where = f" where {plain[1]}" if len(plain) > 1 else ""
            empty = attrs.get("empty")
            if empty is not None and float(empty) != NEUTRAL.get(attrs["fn"], 0.0):
                where += f", empty = {number(float(empty))}"
            return f"{attrs['fn']}({plain[0]} over {axes_text(attrs['axes'])}{where})"
        case "scan":
            return f"{attrs['fn']}({plain[0]} over {attrs['axis']}, discount = {plain[1]})"
        case "gae":
            named = f"value = {plain[1]}, gamma = {plain[2]}, lambda = {plain[3]}"
            return f"gae({plain[0]} over {attrs['axis']}, {named})"
        case "top":
            return f"top({plain[0]} over {axes_text(attrs['axes'])}, share = {number(float(attrs['share']))})"
        case "lookup":
            return f"{attrs['table']}[{plain[0]}]"
        case "anneal":
            shape = "" if attrs["shape"] == "linear" else f", shape = {attrs['shape']}"
            when = "" if plain[0] in ("step", "stage.step") else f" at {plain[0]}"
            return f"anneal({plain[1]}, {plain[2]}, over = {number(float(attrs['over']))}steps{shape}){when}"
        case _:
            return f"{op.removesuffix('2')}({', '.join(plain)})"


def axes_text(axes: Sequence[str]) -> str:
    """One axis, or several in brackets."""
    return axes[0] if len(axes) == 1 else f"({', '.join(axes)})"


def _bound(arg: tuple[str, int], strength: int) -> str:
    return arg[0] if arg[1] >= strength else f"({arg[0]})"


def _rules(step: Step) -> str:
    """What a normaliser does beyond its formula; rules that say the usual thing are left out."""
    attrs = step.attrs
    text = f" align {attrs['align']}, missing = {attrs['missing']}" if attrs.get("align") else ""
    if attrs["fn"] == "zscore":
        text += f", ddof = {attrs['ddof']}, epsilon = {number(float(attrs['epsilon']))}"
    if attrs["singleton"] != "zero":
        text += f", singleton = {attrs['singleton']}"
    if attrs["zero_variance"]:
        text += f", zero_variance = {number(float(attrs['zero_variance']))}"
    return text
