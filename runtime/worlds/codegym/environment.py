"""An environment as data: what its file holds, and all that the runtime needs.

`module` is Python text, run only in the jail. A tool is a function of the module; some of its parameters are bound to
the environment's state (hidden inputs and working containers by name), the agent gives the rest. `solve` acts through
tools alone and is what the oracle trajectories come from.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from rlspec.runtime.worlds.codegym.problems import Comparator
from rlspec.runtime.worlds.codegym.toolschema import Parameter, Tool, schema_of, signature_of

SUBMIT = "Done"
"""The tool that ends an episode: its answer is compared with the reference of the configuration."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolPlan(_Record):
    """A tool: which function runs, which of its parameters the state gives. `observes` marks the tools that were added
    to show hidden inputs."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    returns: str
    returns_doc: str = ""
    function: str
    bound: dict[str, str] = {}
    observes: bool = False

    @property
    def tool(self) -> Tool:
        """What the agent is told."""
        return Tool(self.name, self.doc, self.parameters, self.returns, self.returns_doc)


class Design(_Record):
    """An environment before it has been measured: what an author makes of a problem. `working` are containers of the
    solution that tools change, with their first values as literals."""

    class_name: str
    statement: str
    module: str
    main: str
    solve: str
    tools: tuple[ToolPlan, ...]
    working: dict[str, str] = {}
    answer_type: str
    author: Literal["deterministic", "llm"] = "deterministic"

    @property
    def digest(self) -> str:
        """Names the code in the jail's cache."""
        return hashlib.sha256(f"{self.module}\0{self.solve}".encode()).hexdigest()[:24]

    @property
    def submit(self) -> Tool:
        """The tool that ends the episode."""
        answer = Parameter("answer", self.answer_type, "the answer to the task")
        return Tool(SUBMIT, "Submit the answer. The task is over then.", (answer,), "None")

    @property
    def told(self) -> list[Tool]:
        """All tools that the agent is told of."""
        return [*(plan.tool for plan in self.tools), self.submit]

    def schemas(self) -> list[dict[str, Any]]:
        """OpenAI-style schemas of all tools."""
        return [schema_of(tool) for tool in self.told]

    def signatures(self) -> str:
        """Signatures with docstrings of all tools, as CodeGym shows them."""
        return "\n\n".join(signature_of(tool) for tool in self.told)


class Row(_Record):
    """One configuration: a task. `calls` is the oracle trajectory, the submission included; `observations` what the
    calls before the submission show."""

    level: Literal["easy", "medium", "hard"]
    input: dict[str, Any]
    reference: Any
    calls: tuple[tuple[str, dict[str, Any]], ...]
    observations: tuple[str, ...] = ()
    solve_rate: float | None = None


class Environment(_Record):
    """An admitted environment: its design, and the rows that passed every filter."""

    format: Literal["rlspec.codegym/1"] = "rlspec.codegym/1"
    id: str
    family: str
    comparator: Comparator
    design: Design
    rows: tuple[Row, ...]
    hide_inputs: bool = True
