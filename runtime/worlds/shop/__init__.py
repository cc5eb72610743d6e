"""The embedded world: an online shop's service desk, its live users, its judge and its demonstrators.

world = make_world(Shop())
users = make_user(AgendaUser(), Shop())
task = world.task("train", 0)
session, user = world.reset(task), users.open(task, stream(0, "user", 0))
"""

from __future__ import annotations

from rlspec.compiler.catalog.shop import AgendaUser, OracleJudge, Shop
from rlspec.runtime.worlds.shop.judge import OracleJudgement
from rlspec.runtime.worlds.shop.user import AgendaUsers
from rlspec.runtime.worlds.shop.world import ShopWorld


def make_world(config: Shop) -> ShopWorld:
    """The environment that the component declares."""
    return ShopWorld(config)


def make_user(config: AgendaUser, world_config: Shop) -> AgendaUsers:
    """The user simulator that the component declares. The tasks bring all that it needs to know of its world."""
    return AgendaUsers(config)


def make_judge(config: OracleJudge) -> OracleJudgement:
    """The judge that the component declares. It needs nothing but the task and the dialogue."""
    return OracleJudgement(config)
