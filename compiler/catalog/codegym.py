"""CodeGym: environments made from coding problems (arXiv 2509.17325).

    stage synthesise : codegym { problems = "problems.jsonl"  author = deterministic  solutions = 10
                                 admit { solution_calls = [10calls, 256calls]  distinct_tools = 4  solve_rate = 25% } }
    env gym       : codegym { from = synthesise  held_out = ["search"] }
    env strangers : codegym { from = synthesise  families = ["search"] }

The stage makes and measures environments, the env gives their tasks. `rlc synth` is the same stage on the command line;
what it leaves in a folder is read by `source = "envs/"`. The code lives in `rlspec.runtime.worlds.codegym`.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Ref, Struct, Unit
from rlspec.compiler.catalog.stages import Stage, Work
from rlspec.compiler.records import Field, create_model, model_validator
from rlspec.dsl.annotations import Annotated, Any, ClassVar, Literal, Self

Level = Literal["easy", "medium", "hard"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Calls = Annotated[int, Unit("calls"), Field(ge=1)]


class Admission(Struct):
    """The four numbers that decide whether a task is worth training on, each measured, none assumed."""

    solution_calls: Annotated[
        tuple[Calls, Calls], Field(description="fewest and most calls of its solution, the submission included")
    ] = (10, 256)
    distinct_tools: Annotated[
        int, Field(ge=0, description="different tools that its solution calls at least, the submission not counted")
    ] = 4
    solve_rate: Annotated[Share, Field(description="largest share of the attempts that may solve it; 1: any")] = 0.25
    attempts: Annotated[int, Unit("trajs"), Field(ge=0, description="attempts of the declared policy at each task")] = 4
    policy: Annotated[
        Literal["random", "llm"],
        Field(description="who attempts: random calls with arguments that were seen, or the model behind `endpoint`"),
    ] = "random"
    policy_model: Annotated[str, Field(description="name of the attempting model; empty: the author's")] = ""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.solution_calls[0] > self.solution_calls[1]:
            raise ValueError(f"solution_calls = {list(self.solution_calls)}: the first is more than the second")
        return self


class SynthesisLimits(Struct):
    """What checking one environment may take. The defaults are the published pipeline's."""

    reference_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one reference answer")] = 2.0
    solve_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one run of a solution")] = 3.0
    environment_within: Annotated[
        float, Unit("s"), Field(gt=0, description="seconds of one environment altogether, attempts not counted")
    ] = 15.0
    memory_mib: Annotated[int, Field(ge=1, description="MiB that one run may allocate")] = 100
    answer_chars: Annotated[int, Field(ge=1, description="longest answer, as JSON text")] = 100
    valid_tests: Annotated[int, Field(ge=0, description="unit tests that the solution must pass at least")] = 10
    valid_share: Annotated[Share, Field(description="share of the unit tests that it must pass at least")] = 0.8


class Synthesis(Stage):
    """Makes environments of coding problems: a decomposed solution's functions become tools, its inputs are hidden, and
    what passes the filters is kept, with the calls of its solution as oracle trajectory."""

    NAME: ClassVar[str] = "codegym"

    problems: Annotated[
        str,
        Field(
            min_length=1,
            description='JSONL file of problems; or, of this package, "shipped", or "short": those with short inputs',
        ),
    ] = "shipped"
    author: Annotated[
        Literal["deterministic", "llm"],
        Field(description="who decomposes: the syntax tree of an already decomposed solution, or a language model"),
    ] = "deterministic"
    model: Annotated[str, Field(description="the author's model name, where it is a language model")] = ""
    endpoint: Annotated[
        str, Field(description="base URL of an OpenAI-compatible endpoint; empty: as OPENAI_BASE_URL says")
    ] = ""
    temperature: Annotated[float, Field(ge=0, description="sampling temperature of the author")] = 1.0
    answer_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one answer of a model")] = 120.0
    solver: Annotated[
        Literal["author", "search"],
        Field(description="whose solutions are tried: the author's, or a search over tool calls"),
    ] = "author"
    solutions: Annotated[
        int, Field(ge=1, description="solutions tried per problem; one that solves all its configurations is enough")
    ] = 10
    configurations: Annotated[
        int, Field(ge=1, description="configurations used per problem, the first of each level in turn")
    ] = 30
    levels: Annotated[tuple[Level, ...], Field(description="difficulty of the configurations that are used")] = (
        "easy",
        "medium",
        "hard",
    )
    hide_inputs: Annotated[
        bool, Field(description="show inputs through observation tools only; false: they stand in the task as well")
    ] = True
    admit: Annotated[Admission, Field(description="which tasks are kept")] = Admission()
    limits: Annotated[SynthesisLimits, Field(description="what checking may take")] = SynthesisLimits()
    sandbox: Annotated[
        Literal["seccomp", "none"],
        Field(description="how written code is kept in; none: not at all, for code that you would run yourself"),
    ] = "seccomp"
    seed: Annotated[int, Field(ge=0, description="of the attempts")] = 0

    @model_validator(mode="after")
    def _named(self) -> Self:
        if "llm" in (self.author, self.admit.policy) and not (self.model or self.admit.policy_model):
            raise ValueError("an author or policy that is a language model needs `model`")
        if not self.levels:
            raise ValueError("`levels` is empty")
        return self

    def work(self, inside: Stage | None = None) -> Work:
        return Work(1, 0, talks=False)


# A field called `from` cannot be written in a class body, because it is a word of Python.
_FROM: dict[str, Any] = {
    "from": (Annotated[str, Ref("stage"), Field(description="the stage that makes the environments")], ""),
}
_From: Any = create_model("_From", __base__=Component, **_FROM)


class Gym(_From):
    """Tasks of synthesised environments. One call per message; `Done(answer)` ends the episode, and only its first
    answer counts."""

    KIND: ClassVar[str] = "env"
    NAME: ClassVar[str] = "codegym"
    MEASURES: ClassVar[dict[str, str]] = {
        "verified": "int@traj in {0, 1}",
        "submitted": "int@traj in {0, 1}",
        "calls": "int@traj",
        "tools": "int@traj",
        "errors": "int@traj",
        "oracle_calls": "int@traj",
    }

    source: Annotated[str, Field(description="a folder that `rlc synth` has written, instead of `from`")] = ""
    families: Annotated[tuple[str, ...], Field(description="only these families; none: all")] = ()
    held_out: Annotated[tuple[str, ...], Field(description="families that are left out")] = ()
    most_environments: Annotated[
        int, Field(ge=0, description="at most so many environments, spread over the families; 0: all")
    ] = 0
    test_share: Annotated[
        float, Field(gt=0.0, lt=1.0, description="share of each environment's configurations kept for the test split")
    ] = 0.25
    max_turns: Annotated[
        int,
        Unit("agent_turns"),
        Field(ge=1, le=4096, description="messages of the agent, one call each, before the cut"),
    ] = 256
    tool_docs: Annotated[
        Literal["schemas", "signatures", "names"],
        Field(
            description="how the agent is told of the tools: JSON schemas in the system text; signatures with "
            "docstrings in the task (as published); names and parameters alone, for the smallest models"
        ),
    ] = "signatures"
    tool_names: Annotated[
        Literal["own", "drawn"],
        Field(
            description="own: a solution's functions are called as in the solution; drawn: by other names in every "
            "task, so that which tool to call cannot be learned by heart. What shows inputs, and the submission, keep "
            "their names"
        ),
    ] = "own"
    distilled: Annotated[
        str,
        Field(
            description="a JSONL file of conversations, which a cold start imitates instead of the solutions' calls; "
            "only those count that submit the right answer to a task of the training split"
        ),
    ] = ""
    step: Annotated[
        Literal["trial_then_overwrite"],
        Field(description="a step is tried in a forked child; the state is overwritten when that succeeds"),
    ] = "trial_then_overwrite"
    step_within: Annotated[float, Unit("s"), Field(gt=0, description="seconds of one step")] = 3.0
    memory_mib: Annotated[int, Field(ge=1, description="MiB that one step may allocate")] = 100
    remembers: Annotated[
        int,
        Field(
            ge=0,
            description="results of different steps that a worker keeps, as a step depends on code, state and call "
            "alone; 0: every step is run",
        ),
    ] = 20_000
    sandbox: Annotated[
        Literal["seccomp", "none"],
        Field(description="how written code is kept in; none: not at all, for code that you would run yourself"),
    ] = "seccomp"
    seed: Annotated[int, Field(ge=0, description="of the sequence of tasks")] = 0

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if bool(getattr(self, "from")) == bool(self.source):
            raise ValueError('say where the environments are from: `from = <stage>` or `source = "envs/"`')
        if self.distilled and self.tool_names == "drawn":
            raise ValueError("recorded conversations call tools by their own names: `tool_names = own`")
        return self
