"""Who talks to the agent where: users that train, and users that only examine.

Several users may serve one environment when all but one are named as `user` by evaluations: the one that is left is
the environment's in training, and wherever an evaluation names nobody.
"""

from __future__ import annotations

from rlspec.compiler.catalog.stages import Evaluate
from rlspec.compiler.experiment import Declared, Experiment


def users_of(experiment: Experiment, env: str) -> list[Declared]:
    """The users that train in an environment: all that serve it, less those that evaluations name, unless none would be
    left."""
    serving = [u for u in experiment.of("user").values() if serves(u, env)]
    if len(serving) < 2:
        return serving
    examining = {d.component.user for d in experiment.of("stage").values() if isinstance(d.component, Evaluate)} | {
        getattr(u.component, "of", "") for u in serving
    }
    return [u for u in serving if u.label not in examining] or serving


def serves(user: Declared, env: str) -> bool:
    """Whether a user is there for an environment; one that names none is there for each."""
    return env in user.wiring.get("serves", [env])
