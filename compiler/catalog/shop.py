"""The embedded world: a small online shop, its users, its judge and its demonstrators.

It exists so that a whole experiment runs on two cores in minutes: everything that is said is short and from a closed
vocabulary, and yet nothing is scripted. The user is live, changes its mind, and the state that counts is a database.

    env  shop   : shop   { max_turns = 16agent_turns  difficulty = 1 }
    user people : agenda { changes_mind = 0.7 }
    judge turns : oracle { flip = 0.1 }

The code that runs these lives in `rlspec.runtime.worlds.shop`.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Struct, Unit
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Intent = Literal["cancel", "address", "recolour", "refund", "payment", "card", "home"]
INTENTS_OF: tuple[tuple[Intent, ...], ...] = (
    ("address", "recolour"),
    ("cancel", "address", "recolour", "refund"),
    ("cancel", "address", "recolour", "refund", "payment", "card", "home"),
)
"""What users may want at difficulty 0, 1, and above."""
OBJECTION = "that was a mistake , look again"
"""What a judge that interrupts says, where the spec does not."""


class Shop(Component):
    """The service desk of an online shop, over a SQLite database. Success is the hash of the final database, or that
    the right writes were made (`verifier`); both are measured. `repeats` counts calls that an earlier one was, to the
    letter; `asked_first` says that the agent asked for a yes before it wrote anything."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "shop"
    KEEPS: ClassVar[tuple[str, ...]] = ("verifier", "reward_truncated")
    VERDICT: ClassVar[tuple[str, ...]] = ("verifier", "reward_truncated")
    MEASURES: ClassVar[dict[str, str]] = {
        "verified": "int@traj in {0, 1}",
        "db_hash": "text@traj",
        "reference_hash": "text@traj",
        "outputs_said": "int@traj in {0, 1}",
        "identified": "int@traj in {0, 1}",
        "reads": "int@traj",
        "writes": "int@traj",
        "errors": "int@traj",
        "right_writes": "int@traj in {0, 1}",
        "repeats": "int@traj",
        "asked_first": "int@traj in {0, 1}",
    }

    max_turns: Annotated[
        int, Unit("agent_turns"), Field(ge=1, le=256, description="messages of the agent before the talk is cut")
    ] = 16
    difficulty: Annotated[
        int,
        Field(
            ge=0,
            le=3,
            description="0: one order, two intents, one request; 1: two orders, four intents; 2: three orders, seven "
            "intents; 3: four orders, seven intents, always two requests, each with a first thought",
        ),
    ] = 1
    intents: Annotated[
        tuple[Intent, ...], Field(description="only these of the difficulty's intents; none named means all of them")
    ] = ()
    second_request: Annotated[
        Share, Field(description="share of the tasks of difficulty 1 and 2 that have a second request")
    ] = 0.3
    knows_order: Annotated[
        Share, Field(description="share of the requests about an order whose user names it by number, not by an item")
    ] = 0.5
    thinks_of_other_item: Annotated[
        Share, Field(description="share of the first thoughts that are about another item or order, not another value")
    ] = 0.25
    items_per_order: Annotated[int, Field(ge=1, le=3, description="items in each order")] = 2
    strangers: Annotated[int, Field(ge=0, le=8, description="other users in the database, with an order each")] = 2
    test_share: Annotated[
        float, Field(gt=0.0, lt=1.0, description="share of all possible task contents that belong to the test split")
    ] = 0.25
    verifier: Annotated[
        Literal["db_hash", "write_operations"],
        Field(
            description="what counts as solved: the final content of the database, or that the successful writes with "
            "their arguments are the gold ones, in any order; a write that is undone passes the first alone"
        ),
    ] = "db_hash"
    reward_truncated: Annotated[
        bool,
        Field(description="whether a talk that was cut off is verified too; otherwise its final hash is empty"),
    ] = True
    approval: Annotated[
        bool,
        Field(
            description="users approve what is written: a write that is not among the gold ones is refused, and what "
            "is wrong with it is not said"
        ),
    ] = False
    seed: Annotated[int, Field(ge=0, description="of the sequence of tasks")] = 0

    @model_validator(mode="after")
    def _possible(self) -> Shop:
        """The intents belong to the difficulty, and two requests can be made of them."""
        known = INTENTS_OF[min(self.difficulty, 2)]
        strange = [intent for intent in self.intents if intent not in known]
        if strange:
            raise ValueError(f"difficulty {self.difficulty} has no {', '.join(strange)}, only {', '.join(known)}")
        if self.difficulty >= 2 and len(set(self.intents)) == 1 and self.intents[0] in ("card", "home"):
            raise ValueError(f"two requests cannot both be about the {self.intents[0]}: name another intent too")
        return self


class AgendaUser(Component):
    """A user with a goal and an agenda: it says a part, answers, changes its mind, gets impatient, and leaves."""

    KIND: ClassVar[str] = "user"
    NAME: ClassVar[str] = "agenda"
    MEASURES: ClassVar[dict[str, str]] = {
        "confirmed": "int@traj",
        "rejected": "int@traj",
        "changed": "int@traj",
        "useless": "int@traj",
        "left_angry": "int@traj in {0, 1}",
        "dismissed": "int@traj in {0, 1}",
    }

    reveal: Annotated[
        Share, Field(description="chance of each detail (name, which one, which value) to be said unasked")
    ] = 0.35
    changes_mind: Annotated[
        Share, Field(description="chance to begin with another wish than the one the task ends with, per first thought")
    ] = 0.7
    volunteers: Annotated[
        Share, Field(description="chance that a pending change of mind comes out at a question about something else")
    ] = 0.1
    reconsiders: Annotated[
        Share, Field(description="chance that a pending change of mind comes out at a question about that very thing")
    ] = 0.0
    patience: Annotated[
        int, Unit("agent_turns"), Field(ge=0, le=64, description="useless turns that the user bears before it leaves")
    ] = 3


class OracleJudge(Component):
    """Labels each turn of the agent from the gold calls, with a declared amount of noise."""

    KIND: ClassVar[str] = "judge"
    NAME: ClassVar[str] = "oracle"
    KEEPS: ClassVar[tuple[str, ...]] = ("when", "objection", "at_most_one_major")
    NEEDS_GOLD: ClassVar[bool] = True
    MEASURES: ClassVar[dict[str, str]] = {"score": "int@turn in {-1, 0, 1}"}

    when: Annotated[
        Literal["after_trajectory", "during_rollout"],
        Field(description="asked once at the end, or after every turn, with an objection to a turn that is -1"),
    ] = "after_trajectory"
    objection: Annotated[
        str, Field(min_length=1, description="what the agent is told during the rollout behind the answer to a -1")
    ] = OBJECTION
    flip: Annotated[Share, Field(description="chance of each label to be replaced by one of the other two")] = 0.0
    cascade: Annotated[
        Share, Field(description="chance of each label to become -1 when an earlier one of the trajectory is -1")
    ] = 0.0
    spread: Annotated[
        Share, Field(description="chance of each label to be wrong after one that was; flip, where that is more")
    ] = 0.0
    bias: Annotated[
        float,
        Field(ge=-1.0, le=1.0, description="chance of each label to be one higher (a lenient judge); negative: lower"),
    ] = 0.0
    at_most_one_major: Annotated[
        bool, Field(description="at most one -1 per trajectory, the first; what follows from it counts 0, as in TARL")
    ] = False


class Demonstrators(Struct):
    """Who shows a cold start how the desk is served. The rest of the shares is `hasty`: no confirmation."""

    confirm: Annotated[Share, Field(description="share that asks before each write and whether there is more")] = 0.2
    early: Annotated[
        Share, Field(description="share that says goodbye too early: after the first write, or even before it")
    ] = 0.45
    leaves: Annotated[Share, Field(description="share of the early ones that leave before the first write")] = 0.6
    changed: Annotated[Share, Field(description="share of the demonstrations whose user may change its mind")] = 0.15
    repair: Annotated[Share, Field(description="share that make one faulty call, read the error and repair it")] = 0.08
    resigns: Annotated[
        Share, Field(description="share of those with a faulty call that say goodbye at the error and repair nothing")
    ] = 0.0
    doubts: Annotated[
        Share,
        Field(
            description="share that asks again about the target or the value, one of them by chance, before it writes"
        ),
    ] = 0.0
    told: Annotated[
        Share,
        Field(
            description="share of the demonstrations in which a call that the desk refuses is answered by the "
            "diagnosis of the rule over gold calls, in its usual words, instead of the desk's own"
        ),
    ] = 0.0
    guesses: Annotated[
        Share,
        Field(
            description="share of the demonstrations in synthesised environments that submit what they saw last before "
            "the solution is done"
        ),
    ] = 0.0
    at_once: Annotated[
        Share,
        Field(
            description="share of the demonstrations whose user says everything in the first message and then nothing"
        ),
    ] = 0.0

    @model_validator(mode="after")
    def _shares(self) -> Demonstrators:
        if self.confirm + self.early > 1.0 + 1e-12:
            raise ValueError(f"confirm + early = {self.confirm + self.early:g} is more than 1")
        return self
