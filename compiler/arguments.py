"""The arguments of a function: its subject with its axes, its options."""

from __future__ import annotations

from rlspec.compiler.builder import Value
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.scope import Scope
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING, Any
from rlspec.dsl.diagnostics import near_name

if TYPE_CHECKING:
    from rlspec.compiler.elaborate import Elaborator

AXES = {Level.GROUP: "group", Level.TRAJ: "traj", Level.TURN: "turn", Level.TOKEN: "token"}


def plain_of(e: Elaborator, node: tree.Call, scope: Scope, count: int, name: str) -> list[Value]:
    """Exactly `count` plain arguments, all numbers."""
    if len(node.arguments) != count or any(a.name or a.over or a.where for a in node.arguments):
        raise e.fail("RLC0205", f"`{name}` takes {count} plain argument{'s' * (count != 1)}", node.span)
    return [e.number(a.value, scope) for a in node.arguments]


def subject_of(node: tree.Call, name: str, e: Elaborator) -> tree.Argument:
    """The argument that a reducer, normaliser or scan works on: the first, and the only unnamed one."""
    unnamed = [a for a in node.arguments if a.name is None]
    if len(unnamed) != 1 or node.arguments[0].name is not None:
        raise e.fail("RLC0205", f"`{name}` takes one value `x over axis`, then named options", node.span)
    return node.arguments[0]


def axes_of(e: Elaborator, argument: tree.Argument, name: str, value: Value) -> list[Level]:
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


def options_of(e: Elaborator, node: tree.Call, scope: Scope, allowed: dict[str, Any]) -> dict[str, Any]:
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


def contiguous(e: Elaborator, axes: list[Level], value: Value, subject: tree.Argument, name: str) -> None:
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
