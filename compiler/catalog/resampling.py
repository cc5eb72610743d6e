"""Resampling: trajectories that failed become groups of their own, with what went wrong in their context.

    let failed : bool@traj = corr < 1
    stage train   : grpo { tasks_per_step = 16tasks  group = 8trajs }
    stage fission : resample { within = train  failed = failed  group = 8trajs  trigger = 6steps }
    reward R : real@traj on fission = ...          # without it the recovery groups have the environment's formulas

Recovery groups are scored by a source of their own, so their statistics never mix with those of the groups that they
came from.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Ref, Struct, Unit
from rlspec.compiler.catalog.diagnosticians import LlmDiagnosis
from rlspec.compiler.catalog.stages import Stage, Work
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal, Self


class Feedback(Struct):
    """What is said about a failure. `{tool}` and `{argument}` name what is wrong, never the value that would be right:
    a text in which a gold argument's value is found, in any spelling, is not said; `anything` is said in its place."""

    malformed: Annotated[str, Field(description="a call that cannot be parsed, or that its tool's schema refuses")] = (
        "error : call is malformed"
    )
    refused: Annotated[str, Field(description="a call that the environment refused")] = "error : {tool} was refused"
    unwanted: Annotated[str, Field(description="a write that no gold call is like")] = "error : {tool} is not wanted"
    wrong: Annotated[str, Field(description="a gold call's tool with another value")] = "error : wrong {argument}"
    missing: Annotated[str, Field(description="a gold call's tool without an argument")] = "error : missing {argument}"
    superfluous: Annotated[str, Field(description="a gold call's tool with an argument too many")] = (
        "error : no {argument} is wanted"
    )
    unfinished: Annotated[str, Field(description="it ended before all was done")] = "error : something is left to do"
    anything: Annotated[str, Field(description="what is said when a text was rejected, or nothing was found")] = (
        "error : something is wrong"
    )
    own_words: Annotated[
        bool,
        Field(
            description="a call that the environment answered with an error is answered by the same words, as it is "
            "when nobody diagnoses; the texts above are for the other faults"
        ),
    ] = False
    given: Annotated[bool, Field(description="whether it is said; without it a recovery sees its failure alone")] = True
    by: Annotated[
        Literal["rule", "llm", "policy"],
        Field(description="who writes it: the rule over gold calls, with the texts above; a language model; a policy "
              "that was trained for it. The rule always says where the first fault is"),
    ] = "rule"  # fmt: skip
    on_leak: Annotated[
        Literal["rule", "anything", "drop"],
        Field(description="when every text written gives a value away: the rule's text, `anything`, or no recovery"),
    ] = "rule"
    on_failure: Annotated[
        Literal["rule", "anything", "drop"],
        Field(description="when nothing was written, or what was written is malformed: as for `on_leak`"),
    ] = "rule"
    llm: Annotated[LlmDiagnosis, Field(description="the language model, with `by = llm`")] = LlmDiagnosis()
    policy: Annotated[
        str, Ref("stage"), Field(description="the `diagnostician` stage that trained the policy, with `by = policy`")
    ] = ""

    @model_validator(mode="after")
    def _written(self) -> Self:
        if (self.by == "llm") != bool(self.llm.model):
            raise ValueError("a language model writes with `by = llm  llm { model = ... }`, both of them")
        if (self.by == "policy") != bool(self.policy):
            raise ValueError("a trained policy writes with `by = policy  policy = <its stage>`, both of them")
        return self


class Resample(Stage):
    """Failed trajectories are sampled again as groups of their own, inside a training stage (Fission-GRPO 2026). Every
    failed trajectory is stored with the context in which it is tried again: the task, the failed attempt and the
    feedback; nothing of the attempt carries credit, only what is sampled after it."""

    NAME: ClassVar[str] = "resample"
    RIDES: ClassVar[bool] = True

    within: Annotated[str, Ref("stage"), Field(description="the training stage that it rides on")]
    failed: Annotated[
        tuple[Annotated[str, Ref("let")], ...],
        Field(
            description="a trajectory failed when one of these conditions, each a bool@traj, holds; none named: when "
            "its reward is below the highest that can be reached"
        ),
    ] = ()
    on: Annotated[
        tuple[Annotated[str, Ref("env")], ...],
        Field(description="environments whose failures are sampled again; none named means all"),
    ] = ()
    of: Annotated[
        Literal["trajectory", "dead_group"],
        Field(description="every failed trajectory is sampled again, or one of each group that failed as a whole and "
              "in which all rewards are equal"),
    ] = "trajectory"  # fmt: skip
    errors: Annotated[
        Literal["live", "collected"],
        Field(description="live: every step's failures are stored, and each is sampled again once; collected: those of "
              "the first `collect` steps alone, a fixed set that is sampled again in turns, whatever its age"),
    ] = "live"  # fmt: skip
    collect: Annotated[
        int, Unit("steps"), Field(ge=1, description="first steps whose failures are the set, with `errors = collected`")
    ] = 1
    group: Annotated[int, Unit("trajs"), Field(ge=2, description="trajectories per recovery group")] = 8
    groups: Annotated[int, Unit("tasks"), Field(ge=1, description="recovery groups at a time, at most")] = 4
    depth: Annotated[
        int, Field(ge=1, description="how often in a row a failed recovery may be sampled again; 1 is never")
    ] = 1
    buffer: Annotated[Literal["lifo", "fifo"], Field(description="which stored failure comes first")] = "lifo"
    trigger: Annotated[int, Unit("steps"), Field(ge=1, description="steps between two rounds of recovery")] = 6
    max_age: Annotated[int, Unit("steps"), Field(ge=1, description="a stored failure that is older is forgotten")] = 6
    cut: Annotated[
        Literal["fault", "end"],
        Field(description="fault: the attempt is shown up to its first fault, the faulty call is not executed, and the "
              "feedback is its answer; end: all of it is shown, then the feedback, and the task begins anew"),
    ] = "end"  # fmt: skip
    feedback: Annotated[Feedback, Field(description="what is said about a failure")] = Feedback()

    @model_validator(mode="after")
    def _a_set_or_none(self) -> Self:
        if self.errors == "live" and self.collect != 1:
            raise ValueError("`collect` says how many steps are collected with `errors = collected`")
        return self

    def work(self, inside: Stage | None = None) -> Work:
        return Work(int(getattr(inside, "steps", 0)) // self.trigger, self.groups * self.group, judges=True)
