"""Functions along something: turns or tokens of a trajectory, members of a pool by size, steps of training."""

from __future__ import annotations

from collections.abc import Callable

from rlspec.compiler.arguments import AXES, axes_of, contiguous, options_of, subject_of
from rlspec.compiler.builder import Value
from rlspec.compiler.levels import Level
from rlspec.compiler.program import SHAPES
from rlspec.compiler.ranges import INF, Range, number_text
from rlspec.compiler.schedules import schedule
from rlspec.compiler.scope import Scope
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING

if TYPE_CHECKING:
    from rlspec.compiler.elaborate import Elaborator

    Function = Callable[[Elaborator, tree.Call, Scope], Value]


# ---------------------------------------------------------------------------------------------------------- scans


def scanning(name: str) -> Function:
    def scan(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
        subject = subject_of(node, name, e)
        value = e.number(subject.value, scope)
        axes = axes_of(e, subject, name, value)
        if len(axes) != 1 or axes[0] is not value.level or value.level < Level.TURN:
            raise e.fail("RLC0302", f"`{name}` runs along the value's own axis, turn or token", subject.span)
        discount = next((a for a in node.arguments if a.name and a.name.value == "discount"), None)
        rest = tuple(a for a in node.arguments if a is not discount)
        options_of(e, tree.Call(node.function, rest, node.span), scope, {"discount": 1.0})
        factor = e.number(discount.value, scope) if discount else e.constant(1.0)
        if discount is not None and factor.level > value.level:
            raise e.too_fine(factor.level, value.level, discount.span, "the discount")
        step = e.builder.apply("scan", value.step, factor.step, level=value.level, fn=name, axis=AXES[axes[0]])
        low, high = (-INF if value.range.low < 0 else 0.0), (INF if value.range.high > 0 else 0.0)
        return Value(step, "real", value.level, Range(low, high))

    return scan


def gae(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
    """Generalised advantage estimation (Schulman et al. 2016), over turn or token, to the end of the trajectory."""
    subject = subject_of(node, "gae", e)
    reward = e.number(subject.value, scope)
    named = {a.name.value: a.value for a in node.arguments if a.name}
    if set(named) != {"value", "gamma", "lambda"}:
        raise e.fail("RLC0205", "`gae` takes `r over axis, value = v, gamma = g, lambda = l`", node.span)
    value, gamma, lam = (e.number(named[k], scope) for k in ("value", "gamma", "lambda"))
    axes = axes_of(e, subject, "gae", value)
    if len(axes) != 1 or axes[0] is not value.level or value.level < Level.TURN or reward.level > value.level:
        raise e.fail("RLC0302", "`gae` runs along the axis of `value`, turn or token", subject.span)
    lifted = reward.step
    paid = e.builder.level(reward.step)
    if Level.CONST < paid < value.level:
        axis = AXES[axes[0]]
        e.warn("RLC0530", f"each {axis} is paid the whole reward of its {paid.label}, not only the last",
               node.span, [f"put it where it is earned, e.g. `std.at_end(R)` at the last {axis}"])  # fmt: skip
    if reward.level < value.level:
        lifted = e.builder.apply("add", reward.step, e.builder.apply("mul", value.step, e.builder.const(0.0)))
    step = e.builder.apply("gae", lifted, value.step, gamma.step, lam.step, level=value.level, axis=AXES[axes[0]])
    return Value(step, "real", value.level, Range())


# ---------------------------------------------------------------------------------------------------------- shares


def top(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
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
    axes = axes_of(e, subject, "top", value)
    if subject.where is not None or subject.align is not None:
        raise e.fail("RLC0205", "`top` takes no `where` and no `align`", subject.span)
    contiguous(e, axes, value, subject, "top")
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


def anneal(e: Elaborator, node: tree.Call, scope: Scope) -> Value:
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
        given = e.number(named["over"].value, scope)
        if given.unit not in ("", "steps"):
            raise e.fail("RLC0305", f"`over` counts steps, not {given.unit}", named["over"].span)
        over = e.builder.constant(given.step)
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
