"""The names of the colours: what a semantic token can be."""

from __future__ import annotations

# The order is the protocol's legend: a token is sent as its sort's number.
SORTS = ("keyword", "type", "class", "variable", "parameter", "property", "function", "number", "string", "comment",
         "operator", "enumMember", "macro")  # fmt: skip
MARKS = ("declaration", "defaultLibrary", "readonly")
