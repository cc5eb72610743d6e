"""What the difference between two specs does to logged conversations, as text and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlspec.compiler.ranges import number_text

if TYPE_CHECKING:
    from rlspec.compiler.showing.compared import Consequence
    from rlspec.runtime.rescoring import Effect, Score

SHOWN_TURNS = 12
LONGEST_TERM = 90  # characters


def rows(found: Effect) -> list[tuple[str, str]]:
    """(what, value) of every figure."""
    return [
        ("scored", f"{found.trajectories:,} trajectories, {found.turns:,} turns, {found.groups:,} groups"),
        ("mean reward", f"{found.means[0]:.4g} -> {found.means[1]:.4g}"),
        ("rank correlation of rewards", _rho(found.rewards.rho) + _swaps(found.rewards.swapped, found.rewards.pairs)),
        ("rank correlation of advantages",
         _rho(found.advantages.rho) + _swaps(found.advantages.swapped, found.advantages.pairs)),
        ("rank correlation of turns' advantages", _rho(found.turn_rho)),
        ("sign flips, trajectories", f"{found.trajectories_flipped:.1%}"),
        ("sign flips, turns", f"{found.turns_flipped:.1%}"),
        ("turns silenced / woken", f"{found.turns_silenced:.1%} / {found.turns_woken:.1%}"),
        ("dead groups", f"{found.dead[0]:.1%} -> {found.dead[1]:.1%}"),
        ("trajectories whose advantages change", f"{found.changed:,} of {found.trajectories:,}"),
    ]  # fmt: skip


def as_text(found: Effect, names: tuple[str, str], by_env: Mapping[str, Effect]) -> str:
    """The figures, those of each environment in a line, and the trajectories that change most."""
    width = max(len(what) for what, _ in rows(found))
    lines = [f"{names[0]} -> {names[1]}", *(f"  {what:<{width}}  {value}" for what, value in rows(found))]
    for env, one in by_env.items():
        lines.append(f"  on {env}: {_brief(one)}")
    for change in found.largest:
        lines += ["", f"  {change.before.key}  {change.before.task}"]
        lines += [f"    {line}" for line in told(change.before, change.after)]
    return "\n".join(lines)


def as_markdown(found: Effect, names: tuple[str, str], by_env: Mapping[str, Effect]) -> str:
    """The same for a review."""
    from rlspec.compiler.showing.page import code, words

    cells = [f"| {words(what)} | {words(value)} |" for what, value in rows(found)]
    cells += [f"| on {code(env)} | {words(_brief(one))} |" for env, one in by_env.items()]
    lines = [f"**{code(names[0])} → {code(names[1])}** on logged conversations", "", "| | |", "|---|---|", *cells]
    if found.largest:
        changes = [(code(c.before.key), "; ".join(map(words, told(c.before, c.after)))) for c in found.largest]
        lines += ["", *(f"- {key}: {text}" for key, text in changes)]
    return "\n".join(lines)


def consequence(found: Effect, by_env: Mapping[str, Effect], log: str) -> Consequence:
    """The same for a page."""
    from rlspec.compiler.showing.compared import Consequence

    lines = [*rows(found), *((f"on {env}", _brief(one)) for env, one in by_env.items())]
    changes = [(f"{c.before.key}  {c.before.task}", told(c.before, c.after)) for c in found.largest]
    return Consequence(f"Conversations of {log}, scored under both; nothing is generated again.", lines, changes)


def _brief(one: Effect) -> str:
    return (
        f"{one.trajectories:,} trajectories, rank correlation of advantages {_rho(one.advantages.rho)}, "
        f"sign flips {one.turns_flipped:.1%} of turns, dead groups {one.dead[0]:.1%} -> {one.dead[1]:.1%}"
    )


def told(before: Score, after: Score) -> list[str]:
    """A changed trajectory in a few lines: reward, advantages by turn, and the terms that differ."""
    out = [f"reward {_number(before.reward)} -> {_number(after.reward)}"]
    out.append(f"advantage {_turns(before.advantages)} -> {_turns(after.advantages)}")
    if max(len(before.terms), len(after.terms)) > 1:  # a single term is the reward itself
        for text in dict.fromkeys((*before.terms, *after.terms)):
            old, new = (_number(side[text]) if text in side else "none" for side in (before.terms, after.terms))
            if old != new:
                out.append(f"{_short(text)}: {old} -> {new}")
    return out


def _short(term: str) -> str:
    """A term without the provenance of its numbers, cut to a line."""
    from rlspec.compiler.showing.maths import bare_text

    sign = "- " if term.startswith("- ") else ""
    text = sign + bare_text(term.removeprefix("- "))
    return text if len(text) <= LONGEST_TERM else text[: LONGEST_TERM - 1] + "…"


def _turns(values: tuple[float, ...]) -> str:
    """One number when all turns have the same, else a list."""
    if len(set(values)) <= 1:
        return _number(values[0]) if values else "none"
    shown = ", ".join(_number(v) for v in values[:SHOWN_TURNS])
    return f"[{shown}{', ...' if len(values) > SHOWN_TURNS else ''}]"


def _number(value: float) -> str:
    return number_text(float(f"{value:.4g}"))


def _rho(value: float | None) -> str:
    return "undefined (one side is constant)" if value is None else f"{value:.3f}"


def _swaps(share: float | None, pairs: int) -> str:
    return "" if share is None else f"; {share:.1%} of {pairs:,} pairs within groups the other way round"
