"""The local executor: every role of the graph in this process, one after the other. For debugging, tests and small
machines; it gives the numbers that Ray gives."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rlspec.compiler.plan import Plan
from rlspec.runtime.graph.host import Host
from rlspec.runtime.graph.memory import together, usage


class _Done:
    """A handle: in one process a call is over when it returns."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class LocalExecutor:
    """See `rlspec.runtime.graph.executor.Executor`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._bundle_of = {role.name: role.bundle for role in plan.graph.roles}
        text = plan.model_dump_json()
        self._hosts = [Host(text, n) for n in range(len(plan.graph.bundles))]

    def __enter__(self) -> Self:
        import torch

        torch.set_num_threads(max(bundle.threads for bundle in self.plan.graph.bundles))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hosts.clear()

    def call(self, role: str, method: str, *arguments: Any) -> _Done:
        return _Done(self._hosts[self._bundle_of[role]].call(role, method, *map(_plain, arguments)))

    def share(self, value: Any) -> _Done:
        return _Done(value)

    def get(self, handles: Sequence[_Done] | _Done) -> Any:
        return handles.value if isinstance(handles, _Done) else [h.value for h in handles]

    def peak_memory(self) -> int:
        """Bytes of this process at its largest."""
        return together([usage()])


def _plain(argument: Any) -> Any:
    if isinstance(argument, _Done):
        return argument.value
    if isinstance(argument, list):
        return [_plain(a) for a in argument]
    return argument
