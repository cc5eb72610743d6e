"""The component reference is the catalog's own words."""

from __future__ import annotations

from pathlib import Path

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.reference import page

DOCS = Path(__file__).parents[3] / "docs"


def test_the_reference_page_is_fresh() -> None:
    assert (DOCS / "components.md").read_text() == page()


def test_every_field_has_a_description() -> None:
    bare = [
        f"{kind}.{name}.{field}"
        for kind, components in catalog().items()
        for name, schema in components.items()
        for field, info in schema.model_fields.items()
        if not info.description and "Struct" not in str(type(info.annotation))
    ]
    assert not bare
