"""TensorBoard events: the metrics and timings once more, as curves.

Events are a view of `metrics.jsonl` and `timings.jsonl`: after a resume they are written anew from the lines
that were kept, so a curve never has points of steps that were undone. Tags follow from the lines:
`train/reward_mean`, `held_out/coldstart/pass_1` (stage, what it was evaluated after, metric),
`time/train/generation`.

Records are written by tensorboardX's synchronous writer, not by its background thread: an error of the disk
is then the caller's to see, and nothing is in flight when the process is killed.
"""

from __future__ import annotations

import re
import time as clock
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlspec.runtime.record import durable

_UNUSUAL = re.compile(r"[^-/\w.]", re.ASCII)  # characters that tags cannot have


def tags(line: Mapping[str, Any], area: str = "") -> dict[str, float]:
    """The scalars of a metrics line by tag, in the order of the line. Texts, lists and truth values give
    none."""
    before = f"before_{line['before']}" if "before" in line else ""
    places = [area, line.get("stage", ""), line.get("after", ""), before]
    prefix = "/".join(str(place) for place in places if place != "")
    return {
        _UNUSUAL.sub("_", f"{prefix}/{name}" if prefix else name): float(value)
        for name, value in line.items()
        if name not in ("stage", "step", "before", "after", "at_step", "time") and type(value) in (int, float)
    }


class Events:
    """The event file of a run directory; opened with the first line, so that a run without lines imports
    nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._writer: Any = None

    def add(self, line: Mapping[str, Any], time: float | None = None, area: str = "") -> None:
        """Write one line's scalars at its `step` and `time` (unix seconds; now by default).

        Raises:
            Refusal: RLC0702 when the system does not let it.
        """
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        scalars = tags(line, area)
        if not scalars:
            return
        with durable.writing(self.directory):
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
            moment = clock.time() if time is None else time
            event = Event(wall_time=moment, step=int(line.get("step", 0)), summary=Summary(value=values))
            self._open().write_event(event)

    def flush(self) -> None:
        """Force what was added to the disk. Raises Refusal RLC0702."""
        if self._writer is not None:
            with durable.writing(self.directory):
                self._writer.flush()

    def close(self) -> None:
        """Flush and close the file; a later `add` opens another one."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with durable.writing(self.directory):
                writer.close()

    def rewrite(self, metrics: Iterable[Mapping[str, Any]], timings: Iterable[Mapping[str, Any]]) -> None:
        """Replace all event files by one of these lines. Moments come from the timings' `time`, by stage and
        step."""
        self.close()
        with durable.writing(self.directory):
            for path in self.directory.glob("*.tfevents.*"):
                path.unlink()
        known = list(timings)
        moments = {(line.get("stage"), line.get("step")): line.get("time") for line in known}
        for line in metrics:
            self.add(line, moments.get((line.get("stage"), line.get("step"))))
        for line in known:
            self.add(line, line.get("time"), area="time")
        self.flush()

    def _open(self) -> Any:
        if self._writer is None:
            from tensorboardX.event_file_writer import EventsWriter

            durable.make_directory(self.directory)
            # The name has seconds only: a number keeps a file of the same second from being written over.
            number = len(list(self.directory.glob("*.tfevents.*")))
            self._writer = EventsWriter(str(self.directory / "events"), f".{number}")
        return self._writer
