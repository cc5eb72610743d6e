"""`rlc synth`: coding problems become environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("problems")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder to write, new or empty.")
@click.option("--author", type=click.Choice(["deterministic", "llm"]), default="deterministic", show_default=True)
@click.option("--model", default="", help="Model name of an author or policy that is a language model.")
@click.option("--endpoint", default="", help="Base URL of an OpenAI-compatible endpoint  [default: $OPENAI_BASE_URL]")
@click.option("--solver", type=click.Choice(["author", "search"]), default="author", show_default=True)
@click.option("--solutions", type=click.IntRange(1), default=10, show_default=True, help="Solutions tried per problem.")
@click.option("--configurations", type=click.IntRange(1), default=30, show_default=True, help="Tasks per problem.")
@click.option("--level", "levels", multiple=True, type=click.Choice(["easy", "medium", "hard"]), help="Only these.")
@click.option("--show-inputs", is_flag=True, help="Inputs stand in the task as well.")
@click.option("--calls", type=click.IntRange(1), nargs=2, default=(10, 256), show_default=True, help="Fewest, most.")
@click.option("--tools", type=click.IntRange(0), default=4, show_default=True, help="Distinct tools at least.")
@click.option("--solve-rate", type=click.FloatRange(0, 1), default=0.25, show_default=True, help="At most.")
@click.option("--attempts", type=click.IntRange(0), default=4, show_default=True, help="Per task.")
@click.option("--policy", type=click.Choice(["random", "llm"]), default="random", show_default=True)
@click.option("--long-cot", is_flag=True, help="The second set's filter: 512 calls, at most 1/8 of 8 attempts.")
@click.option("--valid-tests", type=click.IntRange(0), default=10, show_default=True, help="Unit tests to pass.")
@click.option("--sandbox", type=click.Choice(["seccomp", "none"]), default="seccomp", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def synth(problems: str, out: Path, long_cot: bool, show_inputs: bool, valid_tests: int, **options: Any) -> None:
    """Make environments of PROBLEMS, a JSONL file of coding problems ("shipped", "short": those of this package)."""
    from rlspec.compiler.catalog.codegym import Synthesis
    from rlspec.compiler.fields import ValidationError
    from rlspec.runtime.refusal import Refusal
    from rlspec.runtime.worlds.codegym.problems import read_problems
    from rlspec.runtime.worlds.codegym.store import write
    from rlspec.runtime.worlds.codegym.synthesis import synthesise

    admit = {
        "solution_calls": (10, 512) if long_cot else options.pop("calls"),
        "distinct_tools": options.pop("tools"),
        "solve_rate": 1 / 8 if long_cot else options.pop("solve_rate"),
        "attempts": 8 if long_cot else options.pop("attempts"),
        "policy": options.pop("policy"),
    }
    wanted = {name: options[name] for name in Synthesis.model_fields if options.get(name)}
    fields = {**wanted, "problems": problems, "hide_inputs": not show_inputs, "admit": admit}
    try:
        settings = Synthesis.model_validate({**fields, "limits": {"valid_tests": valid_tests}})
    except ValidationError as error:
        raise click.UsageError("; ".join(e["msg"] for e in error.errors())) from None
    if out.exists() and any(out.iterdir()):
        raise Refusal("RLC0702", f"{out} is not empty", "write into another folder with -o")
    made = synthesise(settings, read_problems(problems))
    write(made, settings, out)
    click.echo("\n".join(made.lines()))
    tasks = sum(len(e.rows) for e in made.environments)
    click.echo(f"{out}: {len(made.environments)} environments, {tasks} tasks")
