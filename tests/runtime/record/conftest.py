"""A run to record: dialogues of a desk, with ledgers, measures and scores as a run leaves them."""

from collections.abc import Callable

import pytest

from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.worlds.protocol import Call, Message


def _trajectory(
    step: int = 0, group: int = 0, rollout: int = 0, turns: int = 2, failure: str | None = None
) -> Trajectory:
    ledger = Ledger()
    ledger.append("system", [1, 2, 3])
    dialogue = []
    for turn in range(turns):
        ledger.append("user" if turn == 0 else "tool", [4 + turn, 5])
        ledger.append("agent", [6, 7, 8][: 1 + turn % 3], [-0.1, -0.7, -1e-9][: 1 + turn % 3], version=step)
        dialogue += [
            Message("user", "please cancel #W12"),
            Message("agent", "", Call("cancel", {"order": "#W12", "reason": None, "n": turn})),
            Message("tool", '{"ok": true}', status="ok", wrote=True),
        ]
    return Trajectory(
        key=f"train/{step}/{group}/{rollout}",
        env="shop",
        task=f"shop-train-{group}",
        group=group,
        ledger=ledger,
        dialogue=dialogue,
        measures={"shop.verified": rollout % 2 == 0, "shop.hash": f"h{rollout}", "judge.score": [1] * turns},
        scores={} if failure else {"reward": 0.1 + 0.2 * rollout, "advantage": [1 / 3] * turns},
        finish="failed" if failure else "user_done",
        failure=failure,
    )


@pytest.fixture
def trajectory() -> Callable[..., Trajectory]:
    """Makes a trajectory: `trajectory(step=, group=, rollout=, turns=, failure=)`."""
    return _trajectory
