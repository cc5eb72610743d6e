"""Checkpoints: tensors and state of one moment, complete and verified, or not there at all.

    save(run / "checkpoints", "train-000012", {"policy.embed": weights, ...}, {"optimizer_step": 48},
    plan_digest=digest) loaded = load_newest(run / "checkpoints", plan_digest=digest)
    loaded.tensors["policy.embed"], loaded.state["optimizer_step"], loaded.skipped

A checkpoint is a directory `ckpt-<number>` with safetensors shards, `state.json`, whatever `files` were given
(a policy in Hugging Face layout, say) and `manifest.json`: the sizes and SHA-256 of all of them, the plan's
digest, versions and thread count, and its own SHA-256. It is made as `ckpt-<number>.tmp-<pid>`, the manifest
last, every file and directory forced to the disk, then renamed; so a process killed anywhere leaves the
checkpoints before it. Nothing is pickled.

Tensors may be numpy arrays or torch tensors, mixed. torch is not imported here: a tensor given brings it
along, and `load_newest` returns numpy arrays, which a driver without torch can handle, unless torch tensors
are asked for (bfloat16, which numpy does not know, needs that). Values, shapes and types come back to the
bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlspec.runtime.record import durable, versions
from rlspec.runtime.record.lines import plain
from rlspec.runtime.refusal import Refusal

FORMAT = 1
MANIFEST, STATE = "manifest.json", "state.json"
SHARD_BYTES = 1 << 30  # a shard is made in memory before it is written
_MARGIN = 1 << 20  # headers, manifest, directory entries
_NAME = re.compile(r"ckpt-(\d+)")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A verified checkpoint. `differences` are versions and settings that changed since it was saved (empty:
    going on is bit-exact); `skipped` tells which newer checkpoints were passed over and why."""

    path: Path
    name: str
    tensors: dict[str, Any]
    state: dict[str, Any]
    manifest: dict[str, Any]
    differences: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


class _Unusable(Exception):
    """Why a checkpoint is passed over."""


def save(
    directory: Path,
    name: str,
    tensors: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    files: Mapping[str, bytes | Path] | None = None,
    plan_digest: str = "",
    keep: int = 2,
) -> Path:
    """Save a checkpoint, then remove all but the newest `keep`. It is on the disk when this returns its path.

    Args:
        name: where the run stands, for people ("train-000012").
        tensors: by name; numpy arrays or torch tensors of any device.
        state: everything else that JSON can hold; floats come back exactly.
        files: further files by relative name, as bytes or as the file to copy.

    Raises:
        Refusal: RLC0702 when there is too little space or the system does not let it; checkpoints saved
            before are untouched and nothing half-written stays.
        TypeError: state that JSON cannot hold, or something that is no tensor.
    """
    state_json = json.dumps(plain(dict(state)), indent=1).encode()
    extra = dict(files or {})
    for relative in extra:
        if relative in (STATE, MANIFEST) or _is_shard(relative):
            raise ValueError(f"a checkpoint has its own file {relative}")
    for tensor_name, tensor in tensors.items():
        if not hasattr(tensor, "nbytes"):
            raise TypeError(f"{tensor_name} is no tensor but {type(tensor).__name__}")
    durable.make_directory(directory)
    durable.sweep(directory)
    tensor_bytes = sum(int(tensor.nbytes) for tensor in tensors.values())
    with durable.writing(directory):
        file_bytes = sum(len(f) if isinstance(f, bytes) else f.stat().st_size for f in extra.values())
        number = 1 + max((n for n, _ in _numbered(directory)), default=0)
    need, free = tensor_bytes + len(state_json) + file_bytes + _MARGIN, durable.free_bytes(directory)
    if free is not None and free < need:
        reason = f"{directory} cannot take a checkpoint: it needs {need:,} bytes, {free:,} are free"
        raise Refusal("RLC0702", reason, "free some space, then go on with --resume")

    final = directory / f"ckpt-{number:06d}"
    temporary = directory / f"{final.name}.tmp-{os.getpid()}"
    entries: dict[str, dict[str, Any]] = {}
    with durable.writing(final):
        try:
            temporary.mkdir()
            for shard, data in _shards(tensors):
                entries[shard] = _put(temporary, shard, data)
            entries[STATE] = _put(temporary, STATE, state_json)
            for relative, content in extra.items():
                data = content if isinstance(content, bytes) else content.read_bytes()
                entries[relative] = _put(temporary, relative, data)
            manifest = {
                "format": FORMAT,
                "number": number,
                "name": name,
                "plan_digest": plan_digest,
                "versions": versions.collect(),
                "files": entries,
            }
            _put(temporary, MANIFEST, _sealed(manifest))
            for folder in {parent for relative in entries for parent in Path(relative).parents}:
                durable.sync_directory(temporary / folder)
            os.rename(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        durable.sync_directory(directory)
        _prune(directory, keep)
    return final


def load_newest(
    directory: Path, *, plan_digest: str | None = None, framework: Literal["numpy", "torch"] = "numpy"
) -> Loaded | None:
    """Load the newest complete and undamaged checkpoint; None when none was ever saved.

    Every file's size and SHA-256 is verified before anything of it is used. With `plan_digest`, a checkpoint
    of another plan is refused.

    Raises:
        Refusal: RLC0706 when there are checkpoints and all are damaged, RLC0703 for another plan's.
    """
    skipped: list[str] = []
    for _, path in reversed(_numbered(directory)):
        try:
            manifest = _verified_manifest(path)
            if plan_digest is not None and manifest["plan_digest"] != plan_digest:
                reason = f"checkpoint {path} belongs to plan {manifest['plan_digest']}, not to {plan_digest}"
                raise Refusal("RLC0703", reason, "choose another directory with --out")
            tensors, state = _contents(path, manifest, framework)
        except _Unusable as error:
            skipped.append(f"{path.name}: {error}")
            continue
        return Loaded(
            path=path,
            name=manifest["name"],
            tensors=tensors,
            state=state,
            manifest=manifest,
            differences=versions.differences(manifest["versions"], versions.collect()),
            skipped=skipped,
        )
    if skipped:
        reason = f"no checkpoint in {directory} can be used: {'; '.join(skipped)}"
        raise Refusal("RLC0706", reason, f"remove {directory} to start from the beginning")
    return None


def set_aside(loaded: Loaded) -> None:
    """Rename the checkpoints that were skipped to `*.damaged`, so that they do not count among the newest to
    keep."""
    for entry in loaded.skipped:
        path = loaded.path.parent / entry.partition(":")[0]
        with suppress(OSError):  # they are passed over again next time
            os.replace(path, path.with_name(f"{path.name}.damaged"))


def _numbered(directory: Path) -> list[tuple[int, Path]]:
    """Finished checkpoints, oldest first."""
    if not directory.is_dir():
        return []
    found = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def _prune(directory: Path, keep: int) -> None:
    for _, path in _numbered(directory)[: -max(keep, 1)]:
        # Renamed first: killed in the middle, it is a leftover to sweep and not a checkpoint with holes.
        doomed = path.with_name(f"{path.name}.tmp-{os.getpid()}")
        os.rename(path, doomed)
        shutil.rmtree(doomed)


def _put(directory: Path, relative: str, data: bytes) -> dict[str, Any]:
    """Write one file of a checkpoint to the disk; its entry in the manifest."""
    path = directory / relative
    if not path.resolve().is_relative_to(directory.resolve()):
        raise ValueError(f"a checkpoint's file must lie in it: {relative}")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        durable.write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _sealed(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest | {"sha256": _seal(manifest)}, indent=1, sort_keys=True).encode()


def _seal(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _verified_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        seal = manifest.pop("sha256")
        form = manifest["format"]
    except FileNotFoundError:
        raise _Unusable("incomplete, it has no manifest") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Unusable(f"its manifest cannot be read ({error})") from error
    if seal != _seal(manifest):
        raise _Unusable("its manifest is damaged")
    if form != FORMAT:
        raise _Unusable(f"it has format {form}, this version reads {FORMAT}")
    return manifest


def _contents(path: Path, manifest: dict[str, Any], framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Verify every file, and parse tensors and state from the very bytes that were verified."""
    tensors: dict[str, Any] = {}
    state: dict[str, Any] = {}
    for relative, entry in manifest["files"].items():
        try:
            data = (path / relative).read_bytes()
        except OSError as error:
            raise _Unusable(f"{relative} cannot be read ({error.strerror})") from error
        if len(data) != entry["size"]:
            raise _Unusable(f"{relative} has {len(data):,} bytes instead of {entry['size']:,}")
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise _Unusable(f"{relative} is damaged (its SHA-256 differs from the manifest's)")
        if relative == STATE:
            state = json.loads(data)
        elif _is_shard(relative):
            tensors |= _parsed(data, framework)
    return tensors, state


def _is_shard(relative: str) -> bool:
    return re.fullmatch(r"(arrays|tensors)-\d{5}\.safetensors", relative) is not None


def _parsed(data: bytes, framework: str) -> dict[str, Any]:
    if framework == "torch":
        from safetensors.torch import load as load_torch

        return dict(load_torch(data))
    from safetensors.numpy import load as load_numpy

    try:
        return {name: array.copy() for name, array in load_numpy(data).items()}  # writable, and free of the file
    except KeyError as error:
        raise TypeError(f"numpy has no type {error}; load with framework='torch'") from error


def _shards(tensors: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """File names and bytes of the shards, each of tensors of one framework and of `SHARD_BYTES` where they
    allow."""
    for kind, chosen in (
        ("arrays", {n: t for n, t in tensors.items() if isinstance(t, np.ndarray | np.generic)}),
        ("tensors", {n: t for n, t in tensors.items() if not isinstance(t, np.ndarray | np.generic)}),
    ):
        for index, shard in enumerate(_split(chosen)):
            yield f"{kind}-{index:05d}.safetensors", _serialised(shard, kind)


def _split(tensors: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    shard: dict[str, Any] = {}
    size = 0
    for name in sorted(tensors):
        if shard and size + tensors[name].nbytes > SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[name] = tensors[name]
        size += tensors[name].nbytes
    if shard:
        yield shard


def _serialised(shard: Mapping[str, Any], kind: str) -> bytes:
    if kind == "arrays":
        from safetensors.numpy import save as save_numpy

        return save_numpy({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in shard.items()})
    from safetensors.torch import save as save_torch

    # Tied weights share memory, which safetensors refuses; copies keep each value under each name.
    return save_torch({name: tensor.detach().cpu().contiguous().clone() for name, tensor in shard.items()})
