"""Plans in files."""

from __future__ import annotations

import json
from pathlib import Path

from rlspec.compiler.plan import Plan
from rlspec.compiler.records import ValidationError
from rlspec.dsl.diagnostics import Diagnostic, SpecError


def read_plan(path: Path) -> Plan:
    """A plan from its JSON file.

    Raises:
        SpecError: RLC0701 it cannot be read; RLC0707 it is no plan of this version, or was changed after its digest
            was written.
    """

    def fail(code: str, message: str, note: str) -> SpecError:
        return SpecError([Diagnostic(code, f"{path}: {message}", notes=(note,))])

    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise fail("RLC0701", f"cannot be read: {error.strerror}", "is the path right?") from error
    except ValueError as error:
        raise fail("RLC0707", f"is no JSON: {error}", "make it again with `rlc compile -o`") from error
    if not isinstance(body, dict):
        raise fail("RLC0707", "holds no object", "make it again with `rlc compile -o`")
    digest = body.pop("digest", None)
    try:
        plan = Plan.model_validate(body)
        for part in (plan.policy, plan.engine, *plan.envs, *plan.users, *plan.judges):
            part.component()
        for stage in plan.stages:
            stage.component()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise fail("RLC0707", f"{where}: {first['msg']}", "make it again with `rlc compile -o`") from error
    except KeyError as error:
        raise fail("RLC0707", f"unknown component {error}", "make it again with `rlc compile -o`") from error
    if digest is not None and digest != plan.digest:
        raise fail("RLC0707", "its content is not that of its digest", "remove the digest if the change was meant")
    return plan
