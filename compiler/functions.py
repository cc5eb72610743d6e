"""The functions of the expression language: reducers, normalisers and the scalar ones; those that run along something
are in `rlspec.compiler.along`.

Each takes the elaborator, the call and the scope, checks the arguments, and adds its step. Advantage modes are not
here: they are definitions in the language (`specs/std`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rlspec.compiler.along import anneal, gae, scanning, top
from rlspec.compiler.arguments import AXES, axes_of, contiguous, options_of, plain_of, subject_of
from rlspec.compiler.builder import Value
from rlspec.compiler.evaluator import exp, log
from rlspec.compiler.levels import BY_LABEL, Level, finest
from rlspec.compiler.ranges import INF, Range, number_text
from rlspec.compiler.schedules import combined
from rlspec.compiler.scope import Scope
from rlspec.compiler.units import COUNTED
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING, Any
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import near_name

if TYPE_CHECKING:
    from rlspec.compiler.elaborate import Elaborator

    Function = Callable[[Elaborator, tree.Call, Scope], Value]

# ------------------------------------------------------------------------------------------------------- reducers


def _reducer(name: str) -> Function:
    def reduce(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        if name in ("min", "max") and len(node.arguments) == 2 and not any(a.over for a in node.arguments):
            left, right = plain_of(e, node, scope, 2, name)
            step = e.builder.apply(f"{name}2", left.step, right.step)
            pick = min if name == "min" else max
            reach = Range(pick(left.range.low, right.range.low), pick(left.range.high, right.range.high))
            unit = e.same_unit([left, right], node.span, "compared")
            return Value(step, "real", finest([left.level, right.level]), reach, unit=unit)
        subject = subject_of(node, name, e)
        logical = name in ("any", "all", "count")
        value = e.boolean(subject.value, scope) if logical else e.number(subject.value, scope)
        axes = axes_of(e, subject, name, value)
        contiguous(e, axes, value, subject, name)
        options = options_of(e, node, scope, {"empty": 0.0} if name in ("mean", "min", "max", "first", "last") else {})
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
        if not logical:
            found = replace(found, unit=value.unit)
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
        subject = subject_of(node, name, e)
        value = e.number(subject.value, scope)
        axes = axes_of(e, subject, name, value)
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
            contiguous(e, axes, value, subject, name)
        varies = e.builder.level(value.step)
        if value.range.constant and math.isfinite(value.range.low):
            e.warn("RLC0404", f"`{name}` of a constant is 0 everywhere", node.span)
        elif varies < axes[0]:
            e.warn("RLC0404", f"`{name}` is 0 everywhere: what it compares varies over {varies.label} only", node.span)
        allowed: dict[str, Any] = {"singleton": ("zero", "raw"), "zero_variance": 0.0}
        if name == "zscore":
            allowed |= {"ddof": 1, "epsilon": 1e-6}
        if aligned:
            allowed["missing"] = ("absent", "zero")
        options = options_of(e, node, scope, allowed)
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


# -------------------------------------------------------------------------------------------------------- scalars


def _clip(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    value, low, high = plain_of(e, node, scope, 3, "clip")
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
    unit = e.same_unit([value, low, high], node.span, "compared")
    step = e.builder.apply("clip", value.step, low.step, high.step)
    return Value(step, "real", value.level, value.range.clipped(least, most), unit=unit)


def _indicator(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    if len(node.arguments) != 1 or node.arguments[0].name or node.arguments[0].over:
        raise e.fail("RLC0205", "`indicator` takes one condition", node.span)
    value = e.boolean(node.arguments[0].value, scope)
    return Value(value.step, "int", value.level, Range.of(0.0, 1.0))


def _scalar(name: str, reach: Callable[[Range], Range]) -> Function:
    def scalar(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        (value,) = plain_of(e, node, scope, 1, name)
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
        return Value(step, "int", own, Range(low, INF), counts=label if name == "num" else None, unit=COUNTED[label])

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
    **{name: scanning(name) for name in ("suffix_sum", "prefix_sum")},
    **{name: _axis_function(name) for name in ("num", "index")},
    **dict.fromkeys(PROVENANCE, _sourced),
    "gae": gae,
    "top": top,
    "anneal": anneal,
    "clip": _clip,
    "indicator": _indicator,
    "by": _by,
    "abs": _scalar("abs", lambda r: Range(0.0, max(abs(r.low), abs(r.high)))),
    "sign": _scalar("sign", lambda r: Range.of(-1.0, 0.0, 1.0)),
    "exp": _scalar("exp", lambda r: Range(exp(r.low), exp(r.high))),
    "log": _scalar("log", lambda r: Range(log(r.low), log(r.high)) if r.low >= 0 else Range()),
    "sqrt": _scalar("sqrt", lambda r: Range(math.sqrt(max(r.low, 0.0)), math.sqrt(max(r.high, 0.0)))),
}
