"""What is said about a conversation: by its judges, while it is had and when it has ended, and by rule if it failed."""

from __future__ import annotations

from typing import Any

from rlspec.compiler.plan import ComponentPlan, Plan
from rlspec.runtime.rollouts.talk import Talk
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.diagnosis import diagnose
from rlspec.runtime.worlds.neutral import COUNTED, falls_back, neutral
from rlspec.runtime.worlds.protocol import InfraFailure, Judge, Unusable, is_slow


def interrupts(judge: ComponentPlan) -> bool:
    """Whether a judge is asked after every turn."""
    return judge.fields.get("when") == "during_rollout"


class Judging:
    """Asks the judges of a plan, with the retries and by the failure rules that it declares."""

    def __init__(self, plan: Plan) -> None:
        self.seed = plan.seed
        self._objecting = {j.label: str(j.fields["objection"]) for j in plan.judges if interrupts(j)}
        self._spared = {part.label: part for part in plan.judges if falls_back(part)}

    def interrupting(self, talk: Talk) -> list[Judge]:
        """The judges that are asked after every turn of a conversation."""
        return [talk.desk.judges[label] for label in self._objecting if label in talk.desk.judges]

    def objection(self, talk: Talk) -> str:
        """Ask the judges that interrupt about the agent's last message; what they tell it. Their labels stand."""
        said = []
        for label, text in self._objecting.items():
            if label not in talk.desk.judges:
                continue
            kept = talk.judged.setdefault(label, {})
            found = self._measure(talk, label, talk.desk.judges[label])
            for name, value in found.items():
                if isinstance(value, list):
                    kept.setdefault(name, []).append(value[-1])
                else:
                    kept[name] = max(value, kept.get(name, 0)) if name == COUNTED else value
            if any(isinstance(value, list) and value[-1] == -1 for value in found.values()):
                said.append(text)
        return " ".join(said)

    def measures(self, talk: Talk) -> dict[str, Any]:
        """What all its judges say of a conversation that has ended, by `label.name`.

        Raises:
            InfraFailure: a judge failed beyond its retries, and its failure rule spares nobody.
        """
        return {
            f"{label}.{name}": value
            for label, judge in talk.desk.judges.items()
            for name, value in (talk.judged.get(label) or self._measure(talk, label, judge)).items()
        }

    def _measure(self, talk: Talk, label: str, judge: Judge) -> dict[str, Any]:
        """A judge's measures; of one that failed beyond its retries what its failure rule says. Of one that may answer
        with something else than a verdict also how often it did so far, answers that were asked for again included."""
        part = self._spared.get(label)
        try:
            found = self._asked(talk, label, judge) | ({COUNTED: 0} if part is not None else {})
        except InfraFailure:
            if part is None:
                raise
            found = neutral(part, talk.ledger.turns)
        return found | ({"unusable": talk.unusable.get(label, 0)} if is_slow(judge) else {})

    def _asked(self, talk: Talk, label: str, judge: Judge) -> dict[str, Any]:
        for attempt in range(talk.desk.retries[label] + 1):
            rng = stream(self.seed, "judge", label, talk.job.key, attempt)
            try:
                found = judge.measure(talk.task, talk.seen, rng)
            except InfraFailure as failure:
                talk.unusable[label] = talk.unusable.get(label, 0) + isinstance(failure, Unusable)
                if attempt == talk.desk.retries[label]:
                    raise
                continue
            turns = talk.earlier + talk.ledger.turns
            for labels in found.values():
                if isinstance(labels, list) and len(labels) != turns:
                    raise InfraFailure("judge", f"{len(labels)} labels for {turns} turns")
            return {name: v[talk.earlier :] if isinstance(v, list) else v for name, v in found.items()}
        raise AssertionError("a judge is asked at least once")


def diagnoses(talk: Talk) -> dict[str, Any]:
    """What could be said about the attempt if it failed, for every stage that samples failures of its environment
    again: the place of the first fault, its route, the feedback, how many values were kept out of it."""
    out: dict[str, Any] = {}
    for label, says in talk.desk.resampled.items():
        kept = [place for place in range(len(talk.dialogue)) if place not in talk.unseen]
        found = diagnose(talk.task, talk.desk.world.tools, talk.seen, says)
        place = kept[found.place] if found.place < len(kept) else len(talk.dialogue)
        out |= {f"{label}.fault": place, f"{label}.route": found.route}
        out |= {f"{label}.feedback": found.text, f"{label}.leaks": found.leaks}
    return out
