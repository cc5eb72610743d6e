"""The functions of the expression language: reducers, normalisers, scans and the scalar ones.

Each takes the elaborator, the call and the scope, checks the arguments, and adds its step. Advantage modes are not
here: they are definitions in the language (`specs/std`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlspec.compiler.builder import Value
from rlspec.compiler.evaluator import exp, log
from rlspec.compiler.levels import BY_LABEL, Level, finest
from rlspec.compiler.program import SHAPES
from rlspec.compiler.ranges import INF, Range, number_text
from rlspec.compiler.schedules import combined, schedule
from rlspec.dsl import tree
from rlspec.dsl.diagnostics import near_name

if TYPE_CHECKING:
    from rlspec.compiler.elaborate import Elaborator, Scope

    Function = Callable[[Elaborator, tree.Call, Scope], Value]

AXES = {Level.GROUP: "group", Level.TRAJ: "traj", Level.TURN: "turn", Level.TOKEN: "token"}


def _plain(e: Elaborator, node: tree.Call, scope: Scope, count: int, name: str) -> list[Value]:
    """Exactly `count` plain arguments, all numbers."""
    if len(node.arguments) != count or any(a.name or a.over or a.where for a in node.arguments):
        raise e.fail("RLC0205", f"`{name}` takes {count} plain argument{'s' * (count != 1)}", node.span)
    return [e.number(a.value, scope) for a in node.arguments]


def _subject(node: tree.Call, name: str, e: Elaborator) -> tree.Argument:
    """The argument that a reducer, normaliser or scan works on: the first, and the only unnamed one."""
    unnamed = [a for a in node.arguments if a.name is None]
    if len(unnamed) != 1 or node.arguments[0].name is not None:
        raise e.fail("RLC0205", f"`{name}` takes one value `x over axis`, then named options", node.span)
    return node.arguments[0]


def _axes(e: Elaborator, argument: tree.Argument, name: str, value: Value) -> list[Level]:
    """The axes of an `over`, coarse to fine, which must end at the value's level without a gap."""
    if not argument.over:
        raise e.fail(
            "RLC0306",
            f"`{name}` needs an axis",
            argument.span,
            f"write `{name}(... over {AXES.get(value.level, 'traj')})`",
        )
    found = []
    for axis in argument.over:
        level = BY_LABEL.get(axis.value)
        if level is None or level not in AXES:
            near = near_name(axis.value, AXES.values())
            hint = f"did you mean `{near}`?" if near else "axes: " + ", ".join(AXES.values())
            raise e.fail("RLC0302", f"unknown axis `{axis.value}`", axis.span, hint)
        if level in found:
            raise e.fail("RLC0302", f"axis `{axis.value}` twice", axis.span)
        found.append(level)
    return sorted(found)


def _options(e: Elaborator, node: tree.Call, scope: Scope, allowed: dict[str, Any]) -> dict[str, Any]:
    """Named options: constants, or names out of a tuple of choices. `allowed` gives defaults (or the choices)."""
    out = {k: (v[0] if isinstance(v, tuple) else v) for k, v in allowed.items()}
    for argument in node.arguments:
        if argument.name is None:
            continue
        key = argument.name.value
        if key not in allowed:
            near = near_name(key, allowed)
            raise e.fail(
                "RLC0205",
                f"unknown option `{key}`",
                argument.name.span,
                f"did you mean `{near}`?" if near else "",
            )
        choices = allowed[key]
        if isinstance(choices, tuple):
            if not isinstance(argument.value, tree.Name) or argument.value.value not in choices:
                raise e.fail("RLC0202", f"`{key}` is one of {', '.join(choices)}", argument.value.span)
            out[key] = argument.value.value
            continue
        constant = e.builder.constant(e.number(argument.value, scope).step)
        if constant is None:
            raise e.fail("RLC0206", f"`{key}` must be known before the run", argument.value.span)
        out[key] = int(constant) if isinstance(choices, int) and constant == int(constant) else constant
    return out


# ------------------------------------------------------------------------------------------------------- reducers


def _reducer(name: str) -> Function:
    def reduce(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        if name in ("min", "max") and len(node.arguments) == 2 and not any(a.over for a in node.arguments):
            left, right = _plain(e, node, scope, 2, name)
            step = e.builder.apply(f"{name}2", left.step, right.step)
            pick = min if name == "min" else max
            reach = Range(pick(left.range.low, right.range.low), pick(left.range.high, right.range.high))
            return Value(step, "real", finest([left.level, right.level]), reach)
        subject = _subject(node, name, e)
        logical = name in ("any", "all", "count")
        value = e.boolean(subject.value, scope) if logical else e.number(subject.value, scope)
        axes = _axes(e, subject, name, value)
        _contiguous(e, axes, value, subject, name)
        options = _options(e, node, scope, {"empty": 0.0} if name in ("mean", "min", "max", "first", "last") else {})
        args = [value.step]
        inner = value.range
        if subject.where is not None:
            where = e.boolean(subject.where, scope)
            if where.level > value.level:
                raise e.too_fine(where.level, value.level, subject.where.span, "the condition")
            args.append(where.step)
            inner = narrowed(inner, subject.value, subject.where, e, scope)
        empty = {"all": 1.0}.get(name, float(options.get("empty", 0.0)))
        step = e.builder.apply(
            "reduce",
            *args,
            level=Level(axes[0] - 1),
            fn=name,
            axes=[AXES[a] for a in axes],
            empty=empty,
        )
        filtered = subject.where is not None
        found = _reduced(name, step, axes, inner, empty, filtered, value.base)
        if value.timed is None or filtered or name not in ("mean", "first", "last"):
            return found
        reach, timed = combined(lambda r: _reduced(name, step, axes, r, empty, False, value.base).range, [value], True)
        return replace(found, range=reach, timed=timed)

    return reduce


def _reduced(name: str, step: int, axes: list[Level], inner: Range, empty: float, filtered: bool, base: str) -> Value:
    level = Level(axes[0] - 1)
    maybe_empty = inner.union(Range.of(empty)) if filtered or axes[-1] is not Level.TRAJ else inner
    match name:
        case "any" | "all":
            return Value(step, "bool", level, Range.of(0.0, 1.0))
        case "count":
            return Value(step, "int", level, Range(0, INF), members=(AXES[axes[0]], Range(0.0, 1.0)))
        case "sum":
            member = inner.union(Range.of(0.0)) if filtered else inner
            low = -INF if member.low < 0 else 0.0
            high = INF if member.high > 0 else 0.0
            members = (AXES[axes[0]], Range(member.low, member.high)) if len(axes) == 1 else None
            return Value(step, base, level, Range(low, high), members=members)
        case "mean":
            return Value(step, "real", level, Range(maybe_empty.low, maybe_empty.high))
        case _:
            return Value(step, base, level, maybe_empty)


def _contiguous(e: Elaborator, axes: list[Level], value: Value, subject: tree.Argument, name: str) -> None:
    spans = subject.over[0].span.to(subject.over[-1].span)
    if axes[-1] > value.level or value.level <= Level.STEP:
        raise e.fail(
            "RLC0303",
            f"`{name}` over {AXES[axes[-1]]}, but the value varies only over {value.level.label}",
            spans,
        )
    if axes[-1] < value.level:
        raise e.fail(
            "RLC0301",
            f"`{name}` over {AXES[axes[-1]]} of a value that varies over {value.level.label}",
            spans,
            f"reduce over {value.level.label} first, or pool: over ({AXES[axes[-1]]}, {value.level.label})",
        )
    if axes != [Level(v) for v in range(axes[0], axes[-1] + 1)]:
        raise e.fail("RLC0302", "pooled axes must be neighbours", spans, "e.g. over (traj, turn)")


def narrowed(reach: Range, subject: tree.Expression, where: tree.Expression, e: Elaborator, scope: Scope) -> Range:
    """`x where x in {...}` leaves only the listed values."""
    same = isinstance(where, tree.Binary) and where.op in ("in", "==")
    if not same or e.value(where.left, scope).step != e.value(subject, scope).step:  # type: ignore[union-attr]
        return reach
    listed = where.right.items if isinstance(where.right, tree.SetOf) else (where.right,)  # type: ignore[union-attr]
    constants = [e.builder.constant(e.value(item, scope).step) for item in listed]
    return reach.narrowed(c for c in constants if c is not None) if None not in constants else reach


# ---------------------------------------------------------------------------------------------------- normalisers


def _normaliser(name: str) -> Function:
    def normalise(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        subject = _subject(node, name, e)
        value = e.number(subject.value, scope)
        axes = _axes(e, subject, name, value)
        if subject.where is not None:
            raise e.fail("RLC0205", f"`{name}` takes no `where`", subject.where.span)
        aligned = subject.align is not None
        fits = axes == [Level.TRAJ] and value.level is Level.TURN
        if subject.align is not None and not (fits and subject.align.value == "turn"):
            raise e.fail("RLC0302", "only turn values can be aligned: `x over traj align turn`", subject.span)
        if not aligned and axes[-1] < value.level and axes[-1] >= Level.TRAJ:
            raise e.fail(
                "RLC0304",
                f"trajectories differ in their number of {value.level.label}s: `{name}` must say how to compare them",
                subject.span,
                f"pooled: over ({AXES[axes[-1]]}, {value.level.label})"
                + ("; aligned: over traj align turn" if value.level is Level.TURN else ""),
            )
        if not aligned:
            _contiguous(e, axes, value, subject, name)
        if value.range.constant and math.isfinite(value.range.low):
            e.warn("RLC0404", f"`{name}` of a constant is 0 everywhere", node.span)
        allowed: dict[str, Any] = {"singleton": ("zero", "raw"), "zero_variance": 0.0}
        if name == "zscore":
            allowed |= {"ddof": 1, "epsilon": 1e-6}
        if aligned:
            allowed["missing"] = ("absent", "zero")
        options = _options(e, node, scope, allowed)
        step = e.builder.apply(
            "normalise",
            value.step,
            level=value.level,
            fn=name,
            axes=[AXES[a] for a in axes],
            align="turn" if aligned else "",
            **options,
        )
        reach = Range(-1.0, 1.0) if name == "rank" else Range()
        return Value(step, "real", value.level, reach)

    return normalise


# ---------------------------------------------------------------------------------------------------------- scans


def _scan(name: str) -> Function:
    def scan(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        subject = _subject(node, name, e)
        value = e.number(subject.value, scope)
        axes = _axes(e, subject, name, value)
        if len(axes) != 1 or axes[0] is not value.level or value.level < Level.TURN:
            raise e.fail("RLC0302", f"`{name}` runs along the value's own axis, turn or token", subject.span)
        discount = next((a for a in node.arguments if a.name and a.name.value == "discount"), None)
        _options(e, node, scope, {"discount": 1.0})
        factor = e.number(discount.value, scope) if discount else e.constant(1.0)
        step = e.builder.apply("scan", value.step, factor.step, level=value.level, fn=name, axis=AXES[axes[0]])
        low, high = (-INF if value.range.low < 0 else 0.0), (INF if value.range.high > 0 else 0.0)
        return Value(step, "real", value.level, Range(low, high))

    return scan


def _gae(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    """Generalised advantage estimation (Schulman et al. 2016), over turn or token, to the end of the trajectory."""
    subject = _subject(node, "gae", e)
    reward = e.number(subject.value, scope)
    named = {a.name.value: a.value for a in node.arguments if a.name}
    if set(named) != {"value", "gamma", "lambda"}:
        raise e.fail("RLC0205", "`gae` takes `r over axis, value = v, gamma = g, lambda = l`", node.span)
    value, gamma, lam = (e.number(named[k], scope) for k in ("value", "gamma", "lambda"))
    axes = _axes(e, subject, "gae", value)
    if len(axes) != 1 or axes[0] is not value.level or value.level < Level.TURN or reward.level > value.level:
        raise e.fail("RLC0302", "`gae` runs along the axis of `value`, turn or token", subject.span)
    lifted = reward.step
    if reward.level < value.level:
        lifted = e.builder.apply("add", reward.step, e.builder.apply("mul", value.step, e.builder.const(0.0)))
    step = e.builder.apply("gae", lifted, value.step, gamma.step, lam.step, level=value.level, axis=AXES[axes[0]])
    return Value(step, "real", value.level, Range())


# ---------------------------------------------------------------------------------------------------------- shares


def _top(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    """`top(x over (group, traj, turn, token), share = 20%)`: whether a member is among the largest of its pool."""
    if not node.arguments or node.arguments[0].name is not None:
        raise e.fail("RLC0205", "`top` takes one value `x over axes`, then its share", node.span)
    subject, rest = node.arguments[0], list(node.arguments[1:])
    if len(rest) != 1 or rest[0].over or (rest[0].name is not None and rest[0].name.value != "share"):
        raise e.fail("RLC0205", "`top` takes one share", node.span, "e.g. `share = 20%`")
    value = e.number(subject.value, scope)
    if not subject.over:
        inner = [AXES[v] for v in AXES if v <= value.level]
        pool = f"({', '.join(inner)})" if len(inner) > 1 else "".join(inner)
        raise e.fail("RLC0306", "`top` needs its pool", subject.span, f"over the whole step: `over {pool}`")
    axes = _axes(e, subject, "top", value)
    if subject.where is not None or subject.align is not None:
        raise e.fail("RLC0205", "`top` takes no `where` and no `align`", subject.span)
    _contiguous(e, axes, value, subject, "top")
    share = e.builder.constant(e.number(rest[0].value, scope).step)
    if share is None:
        raise e.fail("RLC0206", "the share of `top` must be known before the run", rest[0].span)
    if not 0 < share <= 1:
        raise e.fail("RLC0401", f"a share lies above 0 and up to 1, not at {number_text(share)}", rest[0].span)
    if value.range.constant:
        e.warn("RLC0404", "all of a constant are among its largest", node.span)
    step = e.builder.apply("top", value.step, level=value.level, axes=[AXES[a] for a in axes], share=share)
    return Value(step, "bool", value.level, Range.of(0.0, 1.0))


# ------------------------------------------------------------------------------------------------------- schedules


def _anneal(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    """`anneal(a, b, over = 100steps, shape = linear)`: a at step 0, b at step `over` and from then on."""
    plain = [a for a in node.arguments if a.name is None and not a.over]
    named = {a.name.value: a for a in node.arguments if a.name is not None}
    if len(plain) != 2 or len(plain) + len(named) != len(node.arguments) or named.keys() - {"over", "shape"}:
        raise e.fail("RLC0205", "`anneal` takes the first value, the last one, and perhaps `over` and `shape`",
                     node.span, "e.g. `anneal(3, 2, over = 100steps)`")  # fmt: skip
    ends = []
    for argument in plain:
        known = e.builder.constant(e.number(argument.value, scope).step)
        if known is None:
            raise e.fail("RLC0206", "the ends of a schedule must be known before the run", argument.span)
        ends.append(known)
    shape = "linear"
    if "shape" in named:
        word = named["shape"].value
        if not isinstance(word, tree.Name) or word.value not in SHAPES:
            raise e.fail("RLC0202", f"`shape` is one of {', '.join(SHAPES)}", named["shape"].span)
        shape = word.value
    over = e.horizon
    if "over" in named:
        over = e.builder.constant(e.number(named["over"].value, scope).step)
        if over is None:
            raise e.fail("RLC0206", "`over` must be known before the run", named["over"].span)
    if over is None or e.clock is None:
        raise e.fail("RLC0205", "`anneal` must say over how many steps", node.span, "add `over = 100steps`")
    if over <= 0:
        raise e.fail("RLC0401", "`over` is more than 0 steps", named["over"].span if "over" in named else node.span)
    first, last = ends
    if first == last:
        e.warn("RLC0404", f"this schedule stays at {number_text(first)}", node.span)
    reach, timed = schedule(first, last, over, shape)
    step = e.builder.apply(
        "anneal", e.clock().step, e.builder.const(first), e.builder.const(last),
        over=over, shape=shape,
    )  # fmt: skip
    return Value(step, "real", Level.STEP, reach, timed=timed)


# -------------------------------------------------------------------------------------------------------- scalars


def _clip(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    value, low, high = _plain(e, node, scope, 3, "clip")
    least, most = e.builder.constant(low.step), e.builder.constant(high.step)
    if least is None or most is None or least > most:
        raise e.fail("RLC0206", "the bounds of `clip` are constants, low <= high", node.span)
    if value.range.low >= least and value.range.high <= most:
        e.warn(
            "RLC0403",
            f"this clip to [{number_text(least)}, {number_text(most)}] can never bind",
            node.span,
            [f"what it clips already lies in {value.range}"],
        )
    step = e.builder.apply("clip", value.step, low.step, high.step)
    return Value(step, "real", value.level, value.range.clipped(least, most))


def _indicator(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    if len(node.arguments) != 1 or node.arguments[0].name or node.arguments[0].over:
        raise e.fail("RLC0205", "`indicator` takes one condition", node.span)
    value = e.boolean(node.arguments[0].value, scope)
    return Value(value.step, "int", value.level, Range.of(0.0, 1.0))


def _scalar(name: str, reach: Callable[[Range], Range]) -> Function:
    def scalar(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        (value,) = _plain(e, node, scope, 1, name)
        return Value(e.builder.apply(name, value.step), "real", value.level, reach(value.range))

    return scalar


def _axis_function(name: str) -> Function:
    def axis(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        if len(node.arguments) != 1 or not isinstance(node.arguments[0].value, tree.Name):
            raise e.fail("RLC0205", f"`{name}` takes an axis: `{name}(turn)`", node.span)
        label = node.arguments[0].value.value
        level = BY_LABEL.get(label)
        allowed = (Level.TURN, Level.TOKEN) if name == "index" else tuple(AXES)
        if level not in allowed:
            near = near_name(label, [AXES[a] for a in allowed])
            hint = f"did you mean `{near}`?" if near else ""
            raise e.fail("RLC0302", f"`{name}` knows no axis `{label}`", node.arguments[0].span, hint)
        own = level if name == "index" else Level(level - 1)
        step = e.builder.apply(name, level=own, axis=label)
        low = 0.0 if name == "index" else 1.0
        return Value(step, "int", own, Range(low, INF), counts=label if name == "num" else None)

    return axis


def _by(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    """`by(tier, gold = 1.0, soft = 0.5)`: a table over an enumeration; every choice must be listed."""
    if not node.arguments or node.arguments[0].name is not None:
        raise e.fail("RLC0205", "`by` takes an enumerated value, then one number per choice", node.span)
    subject = e.value(node.arguments[0].value, scope)
    if subject.base != "enum":
        raise e.fail("RLC0201", f"an enumerated value was expected, this is {subject.base}", node.arguments[0].span)
    table: dict[str, Value] = {}
    for argument in node.arguments[1:]:
        if argument.name is None or argument.name.value not in subject.choices:
            raise e.fail("RLC0202", f"the choices are {', '.join(subject.choices)}", argument.span)
        table[argument.name.value] = e.number(argument.value, scope)
    if missing := [c for c in subject.choices if c not in table]:
        raise e.fail("RLC0205", f"no value for {', '.join(missing)}", node.span)
    step, reach = table[subject.choices[-1]].step, table[subject.choices[-1]].range
    for code in reversed(range(len(subject.choices) - 1)):
        entry = table[subject.choices[code]]
        test = e.builder.apply("eq", subject.step, e.builder.const(code))
        step, reach = e.builder.apply("select", test, entry.step, step), reach.union(entry.range)
    return Value(step, "real", finest([subject.level, *(v.level for v in table.values())]), reach)


def _sourced(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    """`reported(x, "where")`, `assumed(x, "why")`, `chosen(x, "why")`: the value itself."""
    if len(node.arguments) != 2 or not isinstance(node.arguments[1].value, tree.Text):
        raise e.fail("RLC0205", "a value and a text saying where it comes from", node.span)
    return e.value(node.arguments[0].value, scope)


PROVENANCE = ("reported", "assumed", "chosen")

FUNCTIONS: dict[str, Function] = {
    **{name: _reducer(name) for name in ("sum", "mean", "min", "max", "any", "all", "count", "first", "last")},
    **{name: _normaliser(name) for name in ("zscore", "center", "rank")},
    **{name: _scan(name) for name in ("suffix_sum", "prefix_sum")},
    **{name: _axis_function(name) for name in ("num", "index")},
    **dict.fromkeys(PROVENANCE, _sourced),
    "gae": _gae,
    "top": _top,
    "anneal": _anneal,
    "clip": _clip,
    "indicator": _indicator,
    "by": _by,
    "abs": _scalar("abs", lambda r: Range(0.0, max(abs(r.low), abs(r.high)))),
    "sign": _scalar("sign", lambda r: Range.of(-1.0, 0.0, 1.0)),
    "exp": _scalar("exp", lambda r: Range(exp(r.low), exp(r.high))),
    "log": _scalar("log", lambda r: Range(log(r.low), log(r.high)) if r.low >= 0 else Range()),
    "sqrt": _scalar("sqrt", lambda r: Range(math.sqrt(max(r.low, 0.0)), math.sqrt(max(r.high, 0.0)))),
}
