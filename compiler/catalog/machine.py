"""Where a plan runs: how many workers, and what each may take."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rlspec.compiler.catalog.base import Component, Unit


class Machine(Component):
    """Workers of one machine or one Ray cluster. Every worker hosts a rollout engine and a trainer rank; work is
    split over the workers the same way whatever executes them, so the executor does not change a number."""

    KIND: ClassVar[str] = "resources"
    NAME: ClassVar[str] = "machine"
    workers: Annotated[int, Field(ge=1, le=1024, description="rollout engines, each beside one trainer rank")] = 2
    cpus_per_worker: Annotated[float, Field(gt=0, description="cores that Ray reserves for a worker")] = 1.0
    gpus_per_worker: Annotated[float, Field(ge=0, description="GPUs that Ray reserves for a worker")] = 0.0
    threads: Annotated[int, Field(ge=1, description="torch threads of a worker; part of the numbers' last bits")] = 1
    ready_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for the workers to start")] = 120.0
    step_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one call to a worker")] = 1800.0
