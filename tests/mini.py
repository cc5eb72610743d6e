"""A whole experiment in miniature: every part of the quickstart, seconds long. It learns nothing; it runs everything."""

from __future__ import annotations

MINI = """rlspec = 1
experiment mini {
  policy agent : tiny { width = 32  layers = 2  heads = 2  kv_heads = 1  feed_forward = 64  context = 320tokens }
  env desk : shop { difficulty = 0  max_turns = 8agent_turns }
  user customer : agenda { serves = [desk] }
  judge turns : oracle { on = [desk]  flip = 30% }
  signal outcome : int@traj in {0, 1}     = env.verified
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  param penalty : real in [0, 1] = 0.1
  reward R : real@traj =
      outcome
      - penalty * indicator(any(verdict == -1 over turn))
      + 0.1 * sum(verdict over turn where verdict in {0, 1}) / num(turn)
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage coldstart : sft {
    demonstrations = 48trajs  held_out = 16trajs  batch = 16trajs  max_steps = 6steps
    warmup.max_steps = 3steps  stop { loss = 90  every = 2steps }  refuse_above = 100
  }
  stage train : grpo {
    tasks_per_step = 4tasks  group = 4trajs  steps = 5steps  checkpoint_every = 2steps  max_new_tokens = 12tokens
  }
  stage held_out : evaluate { after = [coldstart, train]  tasks = 3tasks  trials = 4trajs  max_new_tokens = 12tokens }
}
"""
