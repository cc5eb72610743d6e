"""What executes a plan's graph: roles that live in bundles, and calls to them.

    with executor_for("ray", plan) as executor:
        first = executor.call("trainer.0", "gradients", rows)       # Pending; nothing has been waited for
        executor.call("trainer.0", "apply", [first])                # a Pending argument stays where it is
        executor.get(first)

Calls to one role run one after the other, in the order in which they were made; calls to roles of different bundles may
run at the same time. Two executors exist, `local` (one process, bundle after bundle) and `ray`; both run the same roles
with the same shares of the work, so they give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from rlspec.compiler.plan import Plan


class Executor(Protocol):
    """See the module."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def call(self, role: str, method: str, *arguments: Any) -> Any:
        """Start `role.method(*arguments)`; a handle of its result. Handles among the arguments (also inside one list)
        are replaced by what they stand for, at the callee."""

    def share(self, value: Any) -> Any:
        """A handle of a value that several calls take, so that it travels once."""

    def get(self, handles: Sequence[Any] | Any) -> Any:
        """Wait for one handle, or for all of a list.

        Raises:
            Refusal: what the role refused; RLC0708 when its process died or its deadline passed.
        """

    def peak_memory(self) -> int:
        """Bytes of all processes of the graph at their largest, added up."""


def executor_for(name: str, plan: Plan) -> Executor:
    """`ray` or `local`."""
    if name == "local":
        from rlspec.runtime.graph.local import LocalExecutor

        return LocalExecutor(plan)
    from rlspec.runtime.graph.cluster import RayExecutor

    return RayExecutor(plan)
