"""Lines are on the disk one by one; whatever happens to process or disk, the earlier ones stay."""

import math
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.runtime.record.lines import Lines, encode
from rlspec.runtime.refusal import Refusal


def test_lines_come_back(tmp_path):
    lines = Lines(tmp_path / "m.jsonl")
    lines.append({"step": 1, "stage": "train", "b": 0.1, "a": np.float32(0.1)})
    lines.append({"stage": "train", "step": 2, "worst": -math.inf, "x": math.nan})
    first, second = lines.read()
    assert first == {"stage": "train", "step": 1, "a": float(np.float32(0.1)), "b": 0.1}
    assert second["worst"] == -math.inf
    assert math.isnan(second["x"])


def test_equal_records_give_equal_bytes_in_any_order():
    assert encode({"b": 1, "step": 3, "a": 2, "stage": "s"}) == encode({"stage": "s", "a": 2, "b": 1, "step": 3})
    assert encode({"b": 1, "step": 3, "stage": "s"}) == b'{"stage": "s", "step": 3, "b": 1}\n'


def test_what_json_cannot_hold_is_an_error_and_writes_nothing(tmp_path):
    lines = Lines(tmp_path / "m.jsonl")
    with pytest.raises(TypeError):
        lines.append({"x": object()})
    assert not lines.path.exists()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.text(max_size=3), st.integers() | st.floats(allow_nan=False), max_size=3),
        max_size=5,
    ),
    st.data(),
)
def test_cut_anywhere_the_whole_lines_are_read_and_the_torn_one_is_cut(tmp_path_factory, records, data):
    lines = Lines(tmp_path_factory.getbasetemp() / "cut.jsonl")
    whole = b"".join(map(encode, records))
    size = data.draw(st.integers(0, len(whole)))
    lines.path.write_bytes(whole[:size])
    expected = records[: whole[:size].count(b"\n")]
    assert lines.read() == expected
    lines.repair()
    assert lines.path.read_bytes() == whole[: whole[:size].rfind(b"\n") + 1]
    lines.append({"step": 99})
    assert lines.read() == [*expected, {"step": 99}]
    lines.close()


def test_a_last_line_of_nul_bytes_is_torn(tmp_path):
    lines = Lines(tmp_path / "m.jsonl")
    lines.append({"step": 1})
    with open(lines.path, "ab") as file:
        file.write(b"\0" * 100)
    assert lines.repair() == 100
    assert lines.read() == [{"step": 1}]


def test_a_damaged_line_before_the_last_is_refused_by_number(tmp_path):
    lines = Lines(tmp_path / "m.jsonl")
    lines.path.write_bytes(b'{"step": 1}\n{"step\x00: 2}\n{"step": 3}\n')
    with pytest.raises(Refusal, match=r"RLC0706: line 2 of .*m\.jsonl is damaged"):
        lines.read()


def test_keep_cuts_back_and_knows_when_the_beginning_is_another(tmp_path):
    lines = Lines(tmp_path / "m.jsonl")
    for step in range(5):
        lines.append({"step": step})
        if step == 2:
            mark = lines.mark()
    assert lines.keep(mark.lines, mark.sha256) == 2
    assert [line["step"] for line in lines.read()] == [0, 1, 2]
    lines.append({"step": 3})
    assert [line["step"] for line in lines.read()] == [0, 1, 2, 3]
    with pytest.raises(Refusal, match="RLC0706"):
        lines.keep(9)
    lines.path.write_bytes(lines.path.read_bytes().replace(b"1", b"7"))
    with pytest.raises(Refusal, match="RLC0706"):
        lines.keep(mark.lines, mark.sha256)


def test_a_full_disk_is_a_refusal(tmp_path):
    full = tmp_path / "m.jsonl"
    full.symlink_to("/dev/full")
    with pytest.raises(Refusal, match=r"RLC0702: .*m\.jsonl cannot be written: No space left on device; [\d,]+ bytes"):
        Lines(full).append({"step": 1})


LIMITED = """
import resource, sys
from pathlib import Path
from rlspec.runtime.record.lines import Lines
from rlspec.runtime.refusal import Refusal
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
lines = Lines(Path(sys.argv[1]))
try:
    for step in range(1000):
        lines.append({"step": step, "text": "x" * 40})
except Refusal as refusal:
    print(step, refusal.code)
"""


def test_a_line_that_does_not_fit_leaves_the_lines_before_it_whole(tmp_path):
    path = tmp_path / "m.jsonl"
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    steps, code = done.stdout.split()
    assert code == "RLC0702"
    assert path.read_bytes().endswith(b"\n")
    assert [line["step"] for line in Lines(path).read()] == list(range(int(steps)))


WRITER = """
import sys
from pathlib import Path
from rlspec.runtime.record.lines import Lines
lines = Lines(Path(sys.argv[1]))
for step in range(100000):
    lines.append({"step": step, "text": "x" * 2000})
    print(step, flush=True)
"""


def test_lines_that_were_reported_survive_sigkill(tmp_path):
    path = tmp_path / "m.jsonl"
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
    steps = [line["step"] for line in Lines(path).read()]
    assert steps[: len(reported)] == reported
    assert steps == list(range(len(steps)))
