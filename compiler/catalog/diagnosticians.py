"""Who says what was wrong with a failed attempt, beside the rule over gold calls: a language model behind an endpoint,
or a policy that was trained for it.

    stage fission : resample { within = train  feedback { by = llm  on_leak = rule  llm { model = "qwen3-32b" } } }

    stage coach : diagnostician { data = "triples.jsonl" }           # rlc export triples RUN -o triples.jsonl
    stage fission : resample { within = train  feedback { by = policy  policy = coach } }

Whoever writes it, a text in which a gold argument's value is found is never said (Fission-GRPO, arXiv 2601.15625: the
simulator must diagnose without giving the answer away).
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Secret, Struct, Unit
from rlspec.compiler.catalog.stages import Optimised, Schedule, Stage, Stop, Warmup, Work, reachable
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal, Self


class LlmDiagnosis(Struct):
    """A language model behind an OpenAI-compatible endpoint diagnoses: one request per recovery group, more where its
    text is not used. A request that fails is tried again, `retries` times."""

    model: Annotated[str, Field(description="the endpoint's model name; empty: no model diagnoses")] = ""
    endpoint: Annotated[str, Field(description="base URL of the endpoint; empty: that of $OPENAI_BASE_URL")] = ""
    key: Annotated[Secret | None, Field(description='`secret("NAME")`; none: $OPENAI_API_KEY, if it is set')] = None
    sees: Annotated[
        tuple[Literal["policy", "instruction", "dialogue", "gold_calls"], ...],
        Field(description="what it is shown beside the call that failed and what it was answered"),
    ] = ("instruction", "dialogue", "gold_calls")
    temperature: Annotated[float, Field(ge=0, description="sampling temperature")] = 0.7
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one diagnosis at most")] = 256
    longest: Annotated[
        int, Field(ge=1, description="characters of one diagnosis at most; a longer one is malformed")
    ] = 240
    timeout: Annotated[float, Unit("s"), Field(gt=0, description="seconds for one request, all tries included")] = 60.0
    retries: Annotated[int, Field(ge=0, description="further tries of a request that fails")] = 2
    drafts: Annotated[
        int, Field(ge=1, description="texts that are asked for at most, while they give a value away or are malformed")
    ] = 3
    at_once: Annotated[int, Field(ge=1, description="diagnoses that one worker waits for at a time")] = 16


class Diagnostician(Optimised):
    """A policy of its own is trained to write feedback, on triples of a failed attempt, the calls that solve the task,
    and the diagnosis, as `rlc export triples` writes them. It begins as the agent's policy is declared, with another
    vocabulary if that is an embedded one, and changes nothing of the agent."""

    NAME: ClassVar[str] = "diagnostician"
    TRAINS: ClassVar[bool] = False

    data: Annotated[str, Field(min_length=1, description="JSONL file of triples")]
    held_out: Annotated[
        int,
        Unit("trajs"),
        Field(ge=1, description="triples, of tasks of their own, only to measure on; at least so many"),
    ] = 64
    context: Annotated[
        int, Unit("tokens"), Field(ge=64, description="tokens of a case at most; the attempt loses its beginning first")
    ] = 512
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="tokens of one diagnosis at most")] = 48
    batch: Annotated[int, Unit("trajs"), Field(ge=1, description="triples per step")] = 32
    max_steps: Annotated[int, Unit("steps"), Field(ge=1, description="cap of steps per attempt")] = 400
    lr: Annotated[float, Field(gt=0, description="peak learning rate")] = 4e-3
    schedule: Annotated[Schedule, Field(description="shape of the learning rate after its warm-up")] = "linear"
    final_lr_share: Annotated[float, Field(ge=0, le=1, description="last learning rate as a share of lr")] = 0.1
    lr_warmup: Annotated[int, Unit("steps"), Field(ge=0, description="steps of linear rise up to lr")] = 10
    warmup: Annotated[Warmup, Field(description="the copying warm-up before the triples")] = Warmup(max_steps=0)
    stop: Annotated[Stop, Field(description="when an attempt ends")] = Stop(loss=0.02, every=25, patience=8)
    refuse_above: Annotated[
        float, Field(gt=0, description="a policy whose held-out loss at its end is above is not used")
    ] = 1.0
    attempts: Annotated[int, Field(ge=1, description="starts from other random weights before giving up")] = 2

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        reachable(self.stop, self.refuse_above)
        return self

    def work(self, inside: Stage | None = None) -> Work:
        return Work(self.max_steps, self.batch, talks=False)
