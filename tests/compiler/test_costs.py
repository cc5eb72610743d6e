"""What `rlc plan` computes: shapes, memory terms, calls, prices, and what cannot fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.check import check
from rlspec.compiler.costs.architecture import Architecture, architecture_of
from rlspec.compiler.costs.charges import Price, read_prices
from rlspec.compiler.costs.estimate import Estimate, estimate
from rlspec.compiler.costs.fit import GIB, Memory, cures, memory_of
from rlspec.compiler.costs.memory import PHASES, Worker, moments, peaks
from rlspec.compiler.costs.published import PUBLISHED
from rlspec.compiler.costs.workload import StageLoad, Typical, loads
from rlspec.compiler.plan import ComponentPlan, Plan
from rlspec.compiler.units import scale_between
from rlspec.dsl.diagnostics import Source, SpecError

ROOT = Path(__file__).parents[2]
TARL = ROOT / "specs" / "papers" / "tarl.rlspec"
QUICKSTART = ROOT / "examples" / "quickstart.rlspec"
PRICES = '{"gpt-4.1": {"input": 2.0, "output": 8.0}, "gpt-4": {"input": 30.0, "output": 60.0}}'

SPEC = """rlspec = 1
experiment e {{
  policy agent : hf {{ model = "{model}"  context = 4_096tokens  {policy} }}
  env desk : shop {{ max_turns = 10agent_turns }}
  user customer : agenda {{ serves = [desk] }}
  signal outcome : int@traj in {{0, 1}} = env.verified
  reward R : real@traj = outcome
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  resources r : machine {{ {resources} }}
  {more}
  stage train : grpo {{ tasks_per_step = 8tasks  group = 8trajs  steps = 60steps  lr = 1e-6  {stage} }}
}}
"""


def plan_of(text: str, fits: bool = False) -> Plan:
    found = check(Source("e.rlspec", text), fits=fits)
    assert found.plan is not None, [(d.code, d.message) for d in found.errors]
    return found.plan


def spec(model: str = "Qwen/Qwen3-0.6B", policy: str = "", resources: str = "", stage: str = "", more: str = "") -> str:
    return SPEC.format(model=model, policy=policy, resources=resources, stage=stage, more=more)


def load_of(found: Estimate, stage: str) -> StageLoad:
    return next(load for load in found.loads if load.stage == stage)


# ---------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("name", "billions"),
    [  # as the models' own pages publish them
        ("qwen3-0.6b", 0.596), ("qwen3-1.7b", 1.721), ("qwen3-4b", 4.022), ("qwen3-8b", 8.191), ("qwen3-14b", 14.768),
        ("qwen3-32b", 32.762), ("qwen3-30b-a3b", 30.532), ("qwen2.5-0.5b", 0.494), ("qwen2.5-1.5b", 1.544),
        ("qwen2.5-3b", 3.086), ("qwen2.5-7b", 7.616), ("qwen2.5-14b", 14.770), ("qwen2.5-32b", 32.764),
        ("qwen2.5-72b", 72.706), ("llama-3.2-1b", 1.236), ("llama-3.2-3b", 3.213), ("llama-3.1-8b", 8.030),
        ("llama-3.1-70b", 70.554), ("llama-3.3-70b", 70.554),
    ],
)  # fmt: skip
def test_published_shapes_have_the_published_number_of_parameters(name: str, billions: float) -> None:
    assert Architecture(**PUBLISHED[name]).parameters / 1e9 == pytest.approx(billions, abs=6e-4)


def policy(model: str, **fields: object) -> ComponentPlan:
    return ComponentPlan(label="p", kind="policy", name="hf", fields={"model": model, **fields})


def test_where_a_shape_comes_from_is_said() -> None:
    published = architecture_of(policy("Qwen/Qwen3-4B-Instruct-2507"))
    guess = architecture_of(policy("someone/agent-9B-chat"))
    assert isinstance(published, Architecture)
    assert isinstance(guess, Architecture)
    assert published.source == "the published shape of qwen3-4b"
    assert guess.source.startswith("a guess: 9B by its name")
    assert guess.parameters == 9_000_000_000
    assert architecture_of(policy("gpt2")) == (
        "the shape of 'gpt2' is not known: give `shape { layers = ... }` in the policy"
    )


def test_a_spec_overrides_a_shape() -> None:
    found = architecture_of(policy("Qwen/Qwen3-4B", shape={"layers": 2, "width": 0, "tied": "no"}))
    assert isinstance(found, Architecture)
    assert (found.layers, found.width, found.tied) == (2, 2560, 0)
    assert found.source.endswith("with layers, tied from the spec")


def test_a_local_folder_tells_its_shape(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 96, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 200, "vocab_size": 700,
        "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = architecture_of(policy(str(tmp_path)))
    assert isinstance(found, Architecture)
    assert (found.queries, found.keys, found.tied, found.qk_norm) == (128, 64, 1, 1)
    assert isinstance(architecture_of(policy(str(tmp_path)), read_files=False), str)


# ----------------------------------------------------------------------------------------------------------- memory


def workers() -> st.SearchStrategy[Worker]:
    shapes = st.builds(
        Architecture, st.integers(1, 40), st.sampled_from([64, 512, 4096]), st.just(8), st.sampled_from([1, 8]),
        st.sampled_from([16, 128]), st.sampled_from([128, 11_008]), st.sampled_from([600, 151_936]),
        tied=st.integers(0, 1), qk_norm=st.integers(0, 1),
    )  # fmt: skip
    return st.builds(
        Worker, shapes, st.sampled_from(["float32", "bfloat16"]), st.sampled_from(["cpu", "cuda"]),
        st.sampled_from(["hf", "vllm"]), st.integers(1, 256), st.integers(16, 32_768), st.integers(16, 32_768),
        st.integers(1, 16), st.integers(1, 4), st.integers(1, 256), st.integers(1, 16), st.integers(1, 64),
    )  # fmt: skip


@given(workers())
@settings(deadline=None, max_examples=60)
def test_more_of_anything_never_takes_less(worker: Worker) -> None:
    before = {phase: moment.total() for phase, moment in peaks(worker).items()}
    assert set(before) == set(PHASES)
    assert all(term.bytes > 0 for moment in moments(worker) for term in moment.terms)
    for name in ("slots", "context", "tokens", "ranks", "models", "critics"):
        after = peaks(replace(worker, **{name: getattr(worker, name) * 2 + 1}))
        assert all(after[phase].total() >= before[phase] for phase in PHASES), name


def test_a_critic_is_held_with_its_moments() -> None:
    text = spec()
    critic = text.replace("stage train : grpo", "stage train : ppo").replace(
        "A : real@traj = std.grpo(R)", "A : real@token = std.ppo(R, train.value)"
    )
    assert critic.count("ppo") == 2
    plain, valued = memory_of(plan_of(text)), memory_of(plan_of(critic))
    assert isinstance(plain, Memory)
    assert isinstance(valued, Memory)
    more = peaks(valued.stages["train"])["train"].total() - peaks(plain.stages["train"])["train"].total()
    assert more == 12 * plain.shape.parameters


def test_a_reference_policy_is_held_where_a_kl_is_on() -> None:
    plain, pulled = (memory_of(plan_of(spec(stage=more))) for more in ("", "kl.coefficient = 0.01"))
    assert isinstance(plain, Memory)
    assert isinstance(pulled, Memory)
    more = peaks(pulled.stages["train"])["train"].total() - peaks(plain.stages["train"])["train"].total()
    assert more == 4 * plain.shape.parameters


# ------------------------------------------------------------------------------------------------------ what fits


def test_what_exceeds_the_declared_memory_is_an_error_with_a_cure() -> None:
    text = spec(policy="precision = bfloat16", resources="workers = 8  gpus_per_worker = 1  device_memory = 80GB")
    errors = check(Source("e.rlspec", text)).errors
    assert [d.code for d in errors] == ["RLC0529"]
    assert "engine's key-value cache" in errors[0].notes[0]
    assert errors[0].notes[1].startswith("it fits with ")
    memory = memory_of(plan_of(text))
    assert isinstance(memory, Memory)
    (excess,) = memory.excesses()
    first = cures(memory, excess)[0]
    slots = int(first.removeprefix("slots = ").partition("conv")[0])
    cured = text.replace("  stage", f"  engine e : hf {{ slots = {slots}conversations }}\n  stage")
    assert check(Source("e.rlspec", cured)).errors == []
    doubled = cured.replace(f"slots = {slots}", f"slots = {2 * slots}")
    assert [d.code for d in check(Source("e.rlspec", doubled)).errors] == ["RLC0529"]


def test_what_no_setting_makes_fit_says_how_much_it_needs() -> None:
    text = spec("Qwen/Qwen3-32B", resources="workers = 1  gpus_per_worker = 1  device = h100")
    note = check(Source("e.rlspec", text)).errors[0].notes[1]
    assert note.startswith("no setting does: every worker holds the whole policy, so take device_memory of ")
    need = int(note.partition("device_memory of ")[2].partition(" GiB")[0].replace(",", ""))
    assert need * 0.9 * GIB > 16 * 32.7e9


def test_nothing_is_said_of_memory_that_is_not_declared() -> None:
    assert check(Source("e.rlspec", spec("Qwen/Qwen3-32B"))).errors == []


@pytest.mark.parametrize(
    ("unit", "wanted", "scale"),
    [("GB", "GiB", 1e9 / 2**30), ("min", "s", 60.0), ("USD", "USD", 1.0), ("GB", "s", None), ("turns", "tokens", None)],
)
def test_units_of_one_family_are_converted(unit: str, wanted: str, scale: float | None) -> None:
    assert scale_between(unit, wanted) == (None if scale is None else pytest.approx(scale))


def test_fields_take_any_unit_of_their_family() -> None:
    plan = plan_of(spec(resources="worker_memory = 1_024MiB  step_within = 10min"))
    assert plan.resources is not None
    assert (plan.resources.fields["worker_memory"], plan.graph.step_within) == (1.0, 600.0)
    wrong = check(Source("e.rlspec", spec(resources="worker_memory = 3s")))
    assert [d.code for d in wrong.errors] == ["RLC0305"]


# ------------------------------------------------------------------------------------------------ calls and prices


def test_tarl_asks_its_judge_512_times_a_step(tmp_path: Path) -> None:
    table = tmp_path / "prices.json"
    table.write_text(PRICES)
    found = estimate(plan_of(TARL.read_text()), read_prices(table))
    load = load_of(found, "train")
    (judge,) = [c for c in load.calls if c.kind == "judge"]
    assert (judge.number, judge.tries) == (512, 4)
    assert judge.expected == pytest.approx(0.8 * 512)
    assert (load.steps, load.trajectories) == (250, 512)
    per_call = 32_768 + 1024 + 2 * 1024  # what the agent read, the judge's own prompt, instruction and gold calls
    assert judge.reads == 512 * per_call
    assert found.dollars(judge) == pytest.approx(512 * (per_call * 2.0 + 1024 * 8.0) / 1e6)
    (user,) = [c for c in load.calls if c.kind == "user"]
    assert user.number == 512 * 31
    assert found.total_dollars == pytest.approx(250 * sum(found.dollars(c) or 0.0 for c in load.calls))
    assert found.unpriced == ()


def test_a_judge_that_interrupts_is_asked_every_turn() -> None:
    found = check(Source("t.rlspec", TARL.read_text()), variant="live_intervention").plan
    assert found is not None
    calls = load_of(estimate(found), "train").calls
    assert next(c.number for c in calls if c.kind == "judge") == 512 * 30
    assert next(c.number for c in calls if c.kind == "tools") == 512 * 30


def test_what_has_no_price_is_named() -> None:
    found = estimate(plan_of(TARL.read_text()))
    assert found.unpriced == ("gpt-4", "gpt-4.1")
    assert found.total_dollars == 0


def test_prices_of_a_spec_are_in_its_plan_and_not_in_its_digest() -> None:
    price = 'price judge : per_million_tokens { model = "m"  input = 2USD  output = 8USD }'
    with_, without = plan_of(spec(more=price)), plan_of(spec())
    assert estimate(with_).prices == {"m": Price(2.0, 8.0)}
    assert with_.digest == without.digest
    assert Plan.model_validate_json(with_.model_dump_json()) == with_


def test_prices_of_a_file_win(tmp_path: Path) -> None:
    table = tmp_path / "prices.rlspec"
    table.write_text('rlspec = 1\nprice a : per_million_tokens { model = "m"  input = 3USD  output = 9USD }\n')
    price = 'price judge : per_million_tokens { model = "m"  input = 2USD  output = 8USD }'
    assert estimate(plan_of(spec(more=price)), read_prices(table)).prices == {"m": Price(3.0, 9.0)}


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("p.json", "[1]", "RLC0701"), ("p.json", '{"m": {"input": -1, "output": 1}}', "RLC0701"),
        ("p.json", '{"m": {"input": 1}}', "RLC0701"),
        ("p.rlspec", "rlspec = 1\nprice a : per_million { }\n", "RLC0103"),
        ("p.rlspec", 'rlspec = 1\nprice a : per_million_tokens { model = "m"  input = 2s  output = 1 }\n', "RLC0305"),
        ("p.rlspec", "rlspec = 1\nenv a : shop { }\n", "RLC0102"),
    ],
)  # fmt: skip
def test_a_wrong_price_table_is_refused(tmp_path: Path, name: str, text: str, code: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError) as caught:
        read_prices(tmp_path / name)
    assert caught.value.diagnostics[0].code == code


def test_evaluations_count_every_time_they_run() -> None:
    plan = plan_of(QUICKSTART.read_text())
    found = load_of(estimate(plan), "held_out")
    assert (found.steps, found.trajectories, found.learned) == (2, 400, 0)


def test_hours_follow_from_declared_rates() -> None:
    rates = "workers = 2  gpus_per_worker = 1  generation_rate = 100tokens_per_s  training_rate = 1_000tokens_per_s"
    hours = estimate(plan_of(spec(resources=rates))).hours
    assert hours is not None
    sampled, tokens = 64 * 10 * 48 * 60, 64 * 4096 * 60
    assert hours.total == pytest.approx(sampled / 100 / 3600 + tokens / 1000 / 3600)
    assert hours.device == "GPU"


def test_typical_dialogues_replace_bounds_and_never_exceed_them() -> None:
    plan = plan_of(TARL.read_text())
    bound = load_of(estimate(plan), "train")
    typical = load_of(estimate(plan, typical=Typical(15, 8000)), "train")
    assert typical.tokens == 512 * 8000
    assert {c.kind: c.number for c in typical.calls} == {"user": 512 * 16, "judge": 512, "tools": 512 * 15}
    beyond = load_of(estimate(plan, typical=Typical(10**6, 10**6)), "train")
    assert [(c.number, c.reads) for c in beyond.calls if c.kind == "judge"] == [
        (c.number, c.reads) for c in bound.calls if c.kind == "judge"
    ]
    assert beyond.tokens == bound.tokens


def test_a_table_is_known_after_the_stage_that_finds_it() -> None:
    text = (ROOT / "specs" / "papers" / "mt_grpo_irc.rlspec").read_text()
    plan = check(Source("m.rlspec", text), variant="calibrated").plan
    assert plan is not None
    found = estimate(plan)
    assert ("calibrate.weight, 7 values", "calibrate") in [(known.what, known.after) for known in found.known]
    assert load_of(found, "calibrate").learned == 0


def test_recovery_groups_are_learned_from_with_the_stage_that_they_ride_on() -> None:
    found = estimate(plan_of((ROOT / "specs" / "papers" / "fission.rlspec").read_text()))
    load = load_of(found, "fission")
    assert (load.steps, load.trajectories) == (33, 64)
    assert load.learned > 0


@pytest.mark.parametrize("path", sorted((ROOT / "specs" / "papers").glob("*.rlspec")), ids=lambda path: path.stem)
def test_budget_and_plan_count_the_same_judge_calls(path: Path) -> None:
    plan = plan_of(path.read_text())
    counted = {load.stage: sum(c.number for c in load.calls if c.kind == "judge") for load in loads(plan)}
    assert counted == {budget.stage: budget.judge_calls for budget in plan.budget}


def test_an_examination_is_judged_too() -> None:
    exam = "judge turns : oracle { }  stage exam : evaluate { after = [train]  tasks = 40tasks  trials = 4trajs }"
    assert [(b.stage, b.judge_calls) for b in plan_of(spec(more=exam)).budget] == [("exam", 160), ("train", 64)]


JUDGED = """
  env strange : shop { max_turns = 6agent_turns }
  user other : agenda { serves = [strange] }
  user examiner : llm { serves = [desk]  model = "gpt-4" }
  mix tasks { desk = 100%  strange = 0% }
  judge turns : llm { on = [desk, strange]  model = "gpt-4.1" }
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  let kind : real@traj = mean(verdict over turn)
  stage exam : evaluate { after = [train]  tasks = 10tasks  trials = 2trajs  pass_at = [1]  WORDS }
"""


@pytest.mark.parametrize(
    ("words", "trajectories", "judged", "users"),
    [
        ("", 40, 40, {"customer": 10, "other": 6}),
        ("on = [desk]", 20, 20, {"customer": 10}),
        ("on = [strange]", 20, 20, {"other": 6}),
        ("user = examiner", 40, 40, {"examiner": 10, "other": 6}),
    ],
)
def test_an_evaluation_counts_what_it_examines(
    words: str, trajectories: int, judged: int, users: dict[str, int]
) -> None:
    """As many tasks of each environment, also of one that training never draws from, with the user who examines."""
    plan = plan_of(spec(more=JUDGED.replace("WORDS", words)))
    budget = next(b for b in plan.budget if b.stage == "exam")
    assert (budget.trajectories, budget.judge_calls) == (trajectories, judged)
    load = next(load for load in loads(plan) if load.stage == "exam")
    assert {c.label: c.number // trajectories for c in load.calls if c.kind == "user"} == {
        label: 1 + turns for label, turns in users.items()
    }
    assert sum(c.expected for c in load.calls if c.kind == "judge") == judged
    train = next(load for load in loads(plan) if load.stage == "train")
    assert [c.label for c in train.calls if c.kind == "user"] == ["customer"]
