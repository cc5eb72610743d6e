"""What calls cost: their tokens times a price table.

Prices come from `price` declarations of the plan, and from a file that wins over them: JSON, {"gpt-4.1": {"input": 2.0,
"output": 8.0}} in US dollars per million tokens, or a spec's `price` declarations, `rlspec = 1` above them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from rlspec.compiler.catalog import catalog
from rlspec.compiler.components import Reader
from rlspec.compiler.costs.workload import Calls
from rlspec.compiler.plan import Plan
from rlspec.dsl import parser, tree
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, near_name


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float

    def of(self, calls: Calls) -> float:
        """Dollars of these calls, each made once."""
        return (calls.reads * self.input + calls.writes * self.output) / 1e6


def declared_prices(plan: Plan) -> dict[str, Price]:
    """By model name."""
    return {p.fields["model"]: Price(p.fields["input"], p.fields["output"]) for p in plan.prices}


def unpriced(calls: Iterable[Calls], prices: Mapping[str, Price]) -> list[str]:
    """Models that are called and have no price."""
    return sorted({c.model for c in calls if c.model and c.model not in prices})


def read_prices(path: Path) -> dict[str, Price]:
    """A price table from a file.

    Raises:
        SpecError: RLC0701 it cannot be read; what is wrong with its declarations.
    """
    if path.suffix == ".json":
        return _from_json(path)
    source = parser.read(path)
    file, report = parser.parse(source)
    out: dict[str, Price] = {}
    reader = Reader({}, {}, report)
    for item in file.items:
        kind = item.head.path[0].value
        if kind == "price":
            out |= _declared(item, reader, report)
        elif kind != "rlspec":
            report.append(
                Diagnostic("RLC0102", f"a price table holds no `{kind}`", item.head.path[0].span,
                           label="write `price name : per_million_tokens { ... }`")
            )  # fmt: skip
    if any(d.severity == "error" for d in report):
        raise SpecError([_placed(d, source) for d in report])
    return out


def _declared(item: tree.Item, reader: Reader, report: list[Diagnostic]) -> dict[str, Price]:
    known = catalog()["price"]
    base = item.head.type.base if item.head.type is not None else None
    name = base.value if isinstance(base, tree.Name) else ""
    if name not in known or item.body is None:
        near = near_name(name, known)
        hint = f"did you mean `{near}`?" if near else f"known: {', '.join(sorted(known))}"
        report.append(Diagnostic("RLC0103", f"there is no price `{name}`", item.head.span, label=hint))
        return {}
    made, _ = reader.component(known[name], item, item.body)
    if made is None:
        return {}
    fields = made.model_dump()
    return {fields["model"]: Price(fields["input"], fields["output"])}


def _placed(diagnostic: Diagnostic, source: Source) -> Diagnostic:
    from dataclasses import replace

    return diagnostic if diagnostic.source is not None else replace(diagnostic, source=source)


def _from_json(path: Path) -> dict[str, Price]:
    shape = '{"model": {"input": 2.0, "output": 8.0}}, dollars per million tokens'
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        table = {str(model): Price(float(row["input"]), float(row["output"])) for model, row in body.items()}
    except OSError as error:
        raise SpecError([Diagnostic("RLC0701", f"cannot read {path}: {error.strerror}")]) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SpecError([Diagnostic("RLC0701", f"{path} is no price table: {error!r}", notes=(shape,))]) from error
    wrong = [model for model, price in table.items() if not (0 <= price.input < 1e9 and 0 <= price.output < 1e9)]
    if wrong:
        raise SpecError([Diagnostic("RLC0701", f"{path}: the price of {wrong[0]} is no price", notes=(shape,))])
    return table
