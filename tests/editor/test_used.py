"""Going to definitions of other files."""

from __future__ import annotations

from pathlib import Path

from rlspec.editor.document import Document
from rlspec.editor.navigate import Place, definition


def test_a_definition_of_another_file_is_found_in_it(tmp_path: Path, sample: str) -> None:
    shapes = "rlspec = 1\ndef half(x : real@traj) : real@traj = x / 2\n"
    (tmp_path / "shapes.rlspec").write_text(shapes)
    text = sample.replace("rlspec = 1\n", 'rlspec = 1\nuse shapes = "shapes.rlspec"\n', 1)
    text = text.replace("std.grpo(R)", "std.grpo(shapes.half(R))")
    document = Document(text, str(tmp_path / "spec.rlspec"))
    (place,) = definition(document, text.index("shapes.half") + 8)
    assert place.path == tmp_path / "shapes.rlspec"
    assert shapes[place.span.start : place.span.stop] == "half"
    file = definition(document, text.index('"shapes.rlspec"') + 3)
    assert [p.path for p in file] == [tmp_path / "shapes.rlspec"]
    gone = Document(text, str(tmp_path / "elsewhere" / "spec.rlspec"))
    assert Place(tmp_path / "shapes.rlspec", place.span) not in definition(gone, text.index("shapes.half") + 8)
