"""Trajectories on disk: one Parquet file per step, one row per trajectory, everything in it to the last bit.

    write(run / "trajectories" / "train-000012.parquet", trajectories)
    again = read(run / "trajectories" / "train-000012.parquet")        # equal to what was written
    batch, members = ragged(again, signals)                            # scored again as it was the first time

Columns that other tools will want (tokens, log-probabilities, spans, dialogue) are typed; measures, scores
and the arguments of calls, which have no fixed shape, are JSON texts with numbers in their shortest exact
form. Log-probabilities are kept as float64, as the ledger holds them, NaN where nothing was sampled. The file
carries its SHA-256 in a place that other readers of Parquet pass over.

Parquet texts are UTF-8, which has no place for half a surrogate pair, and a policy can write one (`"\\ud83d"`
in the JSON of a call). Such a trajectory has its words a second time, as JSON, in the column `exact`; it is
empty in all others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from rlspec.runtime.record.batching import SignalSpec as SignalSpec
from rlspec.runtime.record.batching import ragged as ragged
from rlspec.runtime.record.durable import write_file
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.lines import plain
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Message

FORMAT = b"1"
_NAME = re.compile(r"(?P<stage>.+)-(?P<step>\d{6,})\.parquet")
_SURROGATE = re.compile("[\ud800-\udfff]")


def file_name(stage: str, step: int) -> str:
    """`train`, 12 -> `train-000012.parquet`."""
    return f"{stage}-{step:06d}.parquet"


def stage_and_step(name: str) -> tuple[str, int] | None:
    """The reverse of `file_name`; None for another kind of file."""
    found = _NAME.fullmatch(name)
    return (found["stage"], int(found["step"])) if found else None


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write trajectories, in their order, replacing the file as a whole. Equal trajectories give equal bytes.

    Raises:
        Refusal: RLC0702 when the system does not let it.
        TypeError: a measure or score that JSON cannot hold.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([_row(trajectory) for trajectory in trajectories], schema=_schema(pa))
    sink = pa.BufferOutputStream()
    # The file is made in memory and written by us: the disk's errors then arrive as the system reports them.
    pq.write_table(table, sink, compression="zstd")
    write_file(path, _sealed(sink.getvalue().to_pybytes()))


def read(path: Path) -> list[Trajectory]:
    """The trajectories of a file, in the order in which they were written.

    Raises:
        Refusal: RLC0705 when there is no such file, RLC0706 when it is damaged or no file of trajectories.
    """
    rows = _rows(path, None)
    try:
        return [_trajectory(row) for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from error


def read_keys(path: Path) -> list[str]:
    """Only the keys of a file's trajectories (the other columns are not read). Raises as `read`."""
    return [row["key"] for row in _rows(path, ["key"])]


def _rows(path: Path, columns: list[str] | None) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise Refusal("RLC0705", f"there are no trajectories at {path}") from error
    except OSError as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error.strerror}") from error
    if not _is_whole(data):
        raise _damaged(path, ValueError("its bytes do not agree with its SHA-256"))
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            if (file.schema_arrow.metadata or {}).get(b"rlspec.trajectories") != FORMAT:
                raise Refusal("RLC0706", f"{path} is not a file of trajectories that this version reads")
            return cast("list[dict[str, Any]]", file.read(columns=columns).to_pylist())
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise _damaged(path, error) from error


def _sealed(data: bytes) -> bytes:
    """A Parquet file with its SHA-256 before the footer, where no reader looks: pages are found from the
    front by the footer, the footer from the back by its length. (Parquet's own checksums leave out
    dictionaries and headers.)"""
    footer = _footer(data)
    return data[:footer] + hashlib.sha256(data).digest() + data[footer:]


def _is_whole(data: bytes) -> bool:
    footer = _footer(data)
    seal = footer - hashlib.sha256().digest_size
    return seal > 0 and hashlib.sha256(data[:seal] + data[footer:]).digest() == data[seal:footer]


def _footer(data: bytes) -> int:
    """Where the footer begins: before its length (4 bytes) and the magic word (4 bytes)."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _damaged(path: Path, error: Exception) -> Refusal:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    cure = "restore the file from a copy, or run the step again: --resume from a checkpoint before it"
    return Refusal("RLC0706", f"{path} is damaged: {first}", cure)


def _schema(pa: Any) -> Any:
    text, whole = pa.string(), pa.int64()
    span = {"kind": text, "start": whole, "stop": whole, "turn": whole, "version": whole}
    message = {
        "role": text,
        "text": text,
        "call": text,
        "arguments": text,
        "status": text,
        "wrote": pa.bool_(),
    }
    columns = {"key": text, "env": text, "task": text, "group": whole, "finish": text, "failure": text}
    columns |= {"tokens": pa.list_(pa.int32()), "logprobs": pa.list_(pa.float64())}
    columns |= {"spans": pa.list_(pa.struct(span))}
    columns |= {"dialogue": pa.list_(pa.struct(message | {"malformed": text}))}
    columns |= {"measures": text, "scores": text, "exact": pa.binary()}
    return pa.schema(columns, metadata={b"rlspec.trajectories": FORMAT})


def _row(trajectory: Trajectory) -> dict[str, Any]:
    words = {
        "key": trajectory.key,
        "env": trajectory.env,
        "task": trajectory.task,
        "failure": trajectory.failure,
        "dialogue": [_said(message) for message in trajectory.dialogue],
        "measures": _json(trajectory.measures),
        "scores": _json(trajectory.scores),
    }
    exact = None
    if not _is_utf8(words):
        exact = _json(words).encode("utf-8", "surrogatepass")
        words = _legible(words)
    ledger = trajectory.ledger
    return words | {
        "group": trajectory.group,
        "finish": trajectory.finish,
        "tokens": ledger.tokens(),
        "logprobs": np.asarray(ledger._logprobs, dtype=np.float64),
        "spans": [
            {"kind": s.kind, "start": s.start, "stop": s.stop, "turn": s.turn, "version": s.version}
            for s in ledger.spans
        ],
        "exact": exact,
    }


def _json(value: Any) -> str:
    # Escapes would join two halves of a pair that stand side by side without being one character.
    return json.dumps(plain(value), ensure_ascii=False)


def _said(message: Message) -> dict[str, Any]:
    call = message.call
    return {
        "role": message.role,
        "text": message.text,
        "call": None if call is None else call.name,
        "arguments": None if call is None else _json(call.arguments),
        "status": message.status,
        "wrote": message.wrote,
        "malformed": message.malformed,
    }


def _trajectory(row: dict[str, Any]) -> Trajectory:
    words = row if row["exact"] is None else json.loads(row["exact"].decode("utf-8", "surrogatepass"))
    ledger = Ledger()
    tokens, logprobs = row["tokens"], row["logprobs"]
    for span in row["spans"]:
        inside = slice(span["start"], span["stop"])
        sampled = logprobs[inside] if span["kind"] == "agent" else None
        ledger.append(span["kind"], tokens[inside], sampled, span["version"])
    return Trajectory(
        key=words["key"],
        env=words["env"],
        task=words["task"],
        group=row["group"],
        ledger=ledger,
        dialogue=[_message(said) for said in words["dialogue"]],
        measures=json.loads(words["measures"]),
        scores=json.loads(words["scores"]),
        finish=row["finish"],
        failure=words["failure"],
    )


def _message(said: dict[str, Any]) -> Message:
    call = None if said["call"] is None else Call(said["call"], json.loads(said["arguments"]))
    return Message(said["role"], said["text"], call, said["status"], said["wrote"], said["malformed"])


def _is_utf8(words: Any) -> bool:
    if isinstance(words, str):
        return words.isascii() or _SURROGATE.search(words) is None
    if isinstance(words, dict):
        return all(map(_is_utf8, words.values()))
    return not isinstance(words, list) or all(map(_is_utf8, words))


def _legible(words: Any) -> Any:
    """The same with U+FFFD for half surrogates, for readers of the typed columns."""
    if isinstance(words, str):
        return _SURROGATE.sub("\ufffd", words)
    if isinstance(words, dict):
        return {key: _legible(value) for key, value in words.items()}
    return [_legible(entry) for entry in words] if isinstance(words, list) else words
