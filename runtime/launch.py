"""Launching: from a plan to a finished run directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlspec.compiler.plan import Plan
from rlspec.compiler.resolved import schema_file
from rlspec.runtime.graph.executor import executor_for
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.record.durable import write_file
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.reporter import Reporter
from rlspec.runtime.worlds.floors import floors
from rlspec.runtime.worlds.registry import runnable


def launch(
    plan: Plan,
    resolved: str,
    path: Path,
    executor: str,
    reporter: Reporter,
    *,
    resume: bool = False,
    spec: Path | None = None,
) -> dict[str, Any]:
    """Run a plan in a directory; the report.

    Raises:
        Refusal: it cannot be run, or not here; nothing was lost or half-written.
        Interrupted: the user asked to stop; it can be gone on with.
    """
    runnable(plan)
    for line in floors(plan):
        reporter.note(line)
    if resume:
        directory = RunDirectory.open(path, plan.digest)
        finished = directory.report()
        if finished is not None:
            directory.close()
            raise Refusal("RLC0705", f"{path} is finished: there is nothing to resume", f"look at it: rlc show {path}")
    else:
        text = json.dumps(plan.model_dump(mode="json"), indent=1) + "\n"
        directory = RunDirectory.create(path, text, plan.digest, resolved, spec=spec)
        for plugin in plan.plugins:  # beside the resolved spec, which names them
            write_file(path / schema_file(plugin), (json.dumps(plugin.document, indent=1) + "\n").encode())
    with directory:
        from rlspec.runtime.run import Run  # torch and numba, which take seconds: a refusal does not wait for them

        with executor_for(executor, plan) as graph:
            return Run(plan, directory, graph, reporter).execute()
