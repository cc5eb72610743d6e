"""What the language's own words mean, in one line each: kinds, functions, levels. For hovers and completions."""

from __future__ import annotations

KIND_WORDS = {
    "rlspec": "the edition of the language",
    "experiment": "one experiment: everything that a run does",
    "def": "a definition: `def name(x : type) : type = expression`",
    "policy": "the model that learns",
    "engine": "what generates the policy's tokens",
    "resources": "what the run may use of the machine",
    "price": "what a model's tokens cost, for `rlc plan`",
    "env": "an environment: tasks, tools, and what it measures",
    "user": "who talks to the agent; `serves = [env]`",
    "judge": "who scores turns or trajectories; `on = [env]`",
    "stage": "one stage of the run, in the order of the file",
    "mix": "shares of the tasks by environment; they add up to 1",
    "signal": "what an environment, a user or a judge measures",
    "let": "a named formula",
    "reward": "what a trajectory or a turn is worth",
    "advantage": "what the gradient is weighted with",
    "credit": "which tokens carry the advantage",
    "param": "a value that `--set name=value` may change",
    "title": "the experiment in one line",
    "note": "a remark",
    "cites": "the papers that it follows",
    "seed": "of all random numbers of the run",
    "variant": "an ablation: a typed patch of this experiment",
    "overlay": "a patch for any spec that has the roles it names",
    "sweep": "a grid of parameters",
    "claims": "published numbers, and the arithmetic between them",
    "test": "literal trajectories and what they must score",
    "use": "a plugin's components",
    "import": "another file's definitions",
}

FUNCTION_WORDS = {
    "sum": "the sum over an axis: `sum(x over turn where c)`",
    "mean": "the mean over an axis",
    "min": "the least over an axis, or of two values",
    "max": "the largest over an axis, or of two values",
    "any": "whether a condition holds somewhere on an axis",
    "all": "whether a condition holds everywhere on an axis",
    "count": "how often a condition holds on an axis",
    "first": "the first value on an axis",
    "last": "the last value on an axis",
    "zscore": "value minus mean, over standard deviation, within its pool; keeps the level",
    "center": "value minus the mean of its pool; keeps the level",
    "rank": "the rank within its pool, in [-1, 1]; keeps the level",
    "suffix_sum": "from each position to the end, with `discount`",
    "prefix_sum": "from the beginning to each position, with `discount`",
    "top": "whether it is among the largest of its pool: `top(x over (group, traj, turn, token), share = 20%)`",
    "anneal": "a value that follows the training step: `anneal(3, 2, over = 100steps, shape = cosine)`",
    "gae": "generalised advantage estimation along an axis",
    "num": "how many there are of an axis: `num(turn)`",
    "index": "the position on an axis, from 0: `index(turn)`",
    "clip": "`clip(x, low, high)`: x, kept between the bounds",
    "indicator": "1 where a condition holds, else 0",
    "by": "a table over a choice: `by(tier, gold = 1.0, soft = 0.5)`",
    "abs": "the absolute value",
    "sign": "-1, 0 or 1",
    "exp": "the exponential",
    "log": "the natural logarithm",
    "sqrt": "the square root",
    "reported": '`reported(x, "where")`: x, as a publication gives it',
    "assumed": '`assumed(x, "why")`: x, which nobody has published',
    "chosen": '`chosen(x, "why")`: x, our own choice',
}

LEVEL_WORDS = {
    "const": "the same everywhere",
    "step": "one value per training step",
    "group": "one value per task: the rollouts of one task are a group",
    "traj": "one value per trajectory",
    "turn": "one value per message of the agent",
    "token": "one value per token that the agent sampled",
}


def function_text(name: str) -> str:
    """What a function does, or nothing for one that has no line here."""
    return FUNCTION_WORDS.get(name, "")
