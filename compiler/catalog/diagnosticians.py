"""Who says what was wrong with a failed attempt, beside the rule over gold calls: a language model behind an endpoint,
or a policy that was trained for it.

    stage fission : resample { within = train  feedback { by = llm  on_leak = rule  llm { model = "qwen3-32b" } } }

    stage coach : diagnostician { data = "triples.jsonl" }           # rlc export triples RUN -o triples.jsonl
    stage fission : resample { within = train  feedback { by = policy  policy = coach } }

Whoever writes it, a text in which a gold argument's value is found is never said (Fission-GRPO, arXiv 2601.15625: the
simulator must diagnose without giving the answer away).
"""

from __future__ import annotations

from typing import Annotated, Literal

from rlspec.compiler.catalog.base import Secret, Struct, Unit
from rlspec.compiler.records import Field


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
