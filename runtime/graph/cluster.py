"""The Ray executor: one actor per bundle in one placement group, every wait bounded.

An actor that dies is not restarted, because it would answer with weights it no longer has; the run ends by name and
goes on from its checkpoint. Without a cluster (no RAY_ADDRESS) a local one is started for this run and stopped with it:
no dashboard, no usage reports, a small object store.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rlspec.compiler.plan import Plan
from rlspec.runtime.graph.host import Host
from rlspec.runtime.graph.memory import together, usage
from rlspec.runtime.refusal import Refusal

OBJECT_STORE_BYTES = 200 * 1024 * 1024


class _HostActor(Host):
    """A host as a Ray actor: lists of references among the arguments are resolved here."""

    def start(self) -> int:
        """Import what every role needs; the process id."""
        import torch

        torch.set_num_threads(self.plan.graph.bundles[self.bundle].threads)
        return os.getpid()

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        import ray

        plain = [ray.get(a) if isinstance(a, list) and a and isinstance(a[0], ray.ObjectRef) else a for a in arguments]
        return super().call(name, method, *plain)


class RayExecutor:
    """See `rlspec.runtime.graph.executor.Executor`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._bundle_of = {role.name: role.bundle for role in plan.graph.roles}
        self._actors: list[Any] = []
        self._group: Any = None
        self._own_cluster = False

    def __enter__(self) -> Self:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's default of 15 starves workers on a busy machine
        import ray

        graph = self.plan.graph
        try:
            if not ray.is_initialized():
                self._own_cluster = True
                self._start_ray(ray)
            self._reserve(ray)
            kind = ray.remote(_HostActor)
            strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
            text = self.plan.model_dump_json()
            for number, bundle in enumerate(graph.bundles):
                options = kind.options(
                    num_cpus=bundle.cpus,
                    num_gpus=bundle.gpus,
                    max_restarts=0,
                    max_task_retries=0,
                    scheduling_strategy=strategy(self._group, placement_group_bundle_index=number),
                )
                self._actors.append(options.remote(text, number))
            self._wait([actor.start.remote() for actor in self._actors], graph.ready_within, "start")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start_ray(self, ray: Any) -> None:
        if os.environ.get("RAY_ADDRESS"):
            ray.init(log_to_driver=False, configure_logging=False)
            return
        needed = sum(b.cpus for b in self.plan.graph.bundles)
        ray.init(
            num_cpus=max(os.cpu_count() or 1, -int(-needed // 1)),  # logical: bundles share cores where they must
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            configure_logging=False,
        )

    def _reserve(self, ray: Any) -> None:
        """The placement group, after a check that what it asks for exists at all (Ray would wait for ever)."""
        graph = self.plan.graph
        wanted = {"CPU": sum(b.cpus for b in graph.bundles), "GPU": sum(b.gpus for b in graph.bundles)}
        present = ray.cluster_resources()
        for name, amount in wanted.items():
            if amount > present.get(name, 0.0):
                raise Refusal(
                    "RLC0710",
                    f"the plan reserves {amount:g} {name}, the cluster has {present.get(name, 0.0):g}",
                    "lower `resources`, or start a larger cluster",
                )
        bundles = [{"CPU": b.cpus, **({"GPU": b.gpus} if b.gpus else {})} for b in graph.bundles]
        self._group = ray.util.placement_group(bundles, strategy=graph.strategy)
        self._wait([self._group.ready()], graph.ready_within, "reserve resources")

    def _wait(self, references: list[Any], seconds: float, what: str) -> list[Any]:
        import ray

        try:
            return list(ray.get(references, timeout=seconds))
        except ray.exceptions.GetTimeoutError as error:
            raise Refusal(
                "RLC0708", f"the workers did not {what} within {seconds:g} s", "go on with --resume"
            ) from error
        except ray.exceptions.RayActorError as error:
            raise Refusal(
                "RLC0708", "a worker's process died (out of memory, or killed)", "go on with --resume"
            ) from error
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            raise cause from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import ray

        if ray.is_initialized():
            for actor in self._actors:
                with suppress(Exception):  # a dead actor cannot be killed again
                    ray.kill(actor)
            if self._group is not None:
                with suppress(Exception):
                    ray.util.remove_placement_group(self._group)
            if self._own_cluster:
                ray.shutdown()
        self._actors.clear()
        self._group = None

    def call(self, role: str, method: str, *arguments: Any) -> Any:
        return self._actors[self._bundle_of[role]].call.remote(role, method, *arguments)

    def share(self, value: Any) -> Any:
        import ray

        return ray.put(value)

    def get(self, handles: Sequence[Any] | Any) -> Any:
        one = not isinstance(handles, list | tuple)
        found = self._wait([handles] if one else list(handles), self.plan.graph.step_within, "answer")
        return found[0] if one else found

    def peak_memory(self) -> int:
        """Bytes of all workers and this process at their largest; Ray's own processes are not counted."""
        workers = self.get([actor.call.remote("host", "memory") for actor in self._actors])
        return together([usage(), *workers])
