"""Where a plan runs: how many workers, what each may take, what the machine has and how fast it is."""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Unit
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar, Literal

Kind = Literal["any", "a100_40", "a100_80", "h100", "h200", "h800", "h20", "b200", "l40s", "rtx_4090"]

DEVICE_MEMORY: dict[str, float] = {
    "a100_40": 40.0, "a100_80": 80.0, "h100": 80.0, "h200": 141.0, "h800": 80.0, "h20": 96.0, "b200": 180.0,
    "l40s": 48.0, "rtx_4090": 24.0,
}  # fmt: skip
"""GB (10^9 bytes) of each kind of device, as its vendor sells it."""


class Machine(Component):
    """Workers of one machine or one Ray cluster. Every worker hosts a rollout engine and a trainer rank; work is
    split over the workers the same way whatever executes them, so the executor does not change a number. What is said
    of memory and speed is for `rlc plan`, which also refuses what cannot fit; it changes no number either."""

    KIND: ClassVar[str] = "resources"
    NAME: ClassVar[str] = "machine"
    workers: Annotated[int, Field(ge=1, le=1024, description="rollout engines, each beside one trainer rank")] = 2
    cpus_per_worker: Annotated[float, Field(gt=0, description="cores that Ray reserves for a worker")] = 1.0
    gpus_per_worker: Annotated[float, Field(ge=0, description="GPUs that Ray reserves for a worker")] = 0.0
    threads: Annotated[int, Field(ge=1, description="torch threads of a worker; part of the numbers' last bits")] = 1
    ready_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for the workers to start")] = 120.0
    step_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one call to a worker")] = 1800.0
    device: Annotated[Kind, Field(description="kind of GPU, which tells its memory; any: nothing is known")] = "any"
    device_memory: Annotated[
        float, Unit("GiB"), Field(ge=0, description="memory of one GPU; 0: that of its kind, where that is known")
    ] = 0.0
    host_memory: Annotated[
        float, Unit("GiB"), Field(ge=0, description="main memory of the machine for all workers; 0: not declared")
    ] = 0.0
    worker_memory: Annotated[
        float, Unit("GiB"), Field(ge=0, description="main memory that one worker may take; 0: not declared")
    ] = 0.0
    usable: Annotated[
        float,
        Field(gt=0, le=1, description="share of a memory to plan with; contexts, libraries, gaps take the rest"),
    ] = 0.9
    generation_rate: Annotated[
        float, Unit("tokens_per_s"), Field(ge=0, description="tokens that a worker samples a second; 0: not declared")
    ] = 0.0
    training_rate: Annotated[
        float, Unit("tokens_per_s"), Field(ge=0, description="tokens that a worker learns from a second; 0: as above")
    ] = 0.0
