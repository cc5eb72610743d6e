"""Tools in three spellings, and the bridges between them: a Python function with types and docstring, the signature and
docstring that CodeGym shows to its agents, and the function schema of OpenAI-compatible endpoints.

    tool = of_function(ast.parse(source).body[0])
    schema_of(tool)       # {"type": "function", "function": {...}}
    tool_of_schema(...)   # and back
    signature_of(tool)    # def add(a: int, b: int) -> int: and its docstring
    tool_of_signature(...)

Docstrings are read in the style with `Args:` and `Returns:` sections. Examples are dropped: an example with its output
in a tool's description tells the agent what it should find out.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SCALARS = {"int": "integer", "float": "number", "str": "string", "bool": "boolean", "None": "null"}
_NAMES = {v: k for k, v in _SCALARS.items()}
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Return|Raises|Examples?|Notes?):\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\s*(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


class BadTool(ValueError):
    """A function, signature or schema that cannot become a tool; the message says why."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """`type` is a Python annotation: int, float, str, bool, None, list[...], dict[str, ...], tuple[...], `a | b`."""

    name: str
    type: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """What an agent is told of a tool."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    returns: str
    returns_doc: str = ""


# ------------------------------------------------------------------------------------------------------------ types


def type_schema(annotation: str) -> dict[str, Any]:
    """JSON Schema of a Python annotation.

    Raises:
        BadTool: it is no plain type.
    """
    return _schema(_parsed(annotation))


def _parsed(annotation: str) -> ast.expr:
    try:
        return ast.parse(annotation, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise BadTool(f"`{annotation}` is no type") from error


def _schema(node: ast.expr) -> dict[str, Any]:
    match node:
        case ast.Name(id=name) if name in _SCALARS:
            return {"type": _SCALARS[name]}
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Name(id="Any"):
            return {}
        case ast.Name(id="list"):
            return {"type": "array"}
        case ast.Name(id="dict"):
            return {"type": "object"}
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return {"type": "array", "items": _schema(inner)}
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), inner])):
            return {"type": "object", "additionalProperties": _schema(inner)}
        case ast.Subscript(value=ast.Name(id="tuple"), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            found = [_schema(part) for part in parts]
            return {"type": "array", "prefixItems": found, "minItems": len(found), "maxItems": len(found)}
        case ast.BinOp(op=ast.BitOr()):
            return {"anyOf": [_schema(option) for option in _options(node)]}
    raise BadTool(f"`{ast.unparse(node)}` is no plain type")


def _options(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_options(node.left), *_options(node.right)]
    return [node]


def schema_type(schema: Mapping[str, Any]) -> str:
    """The Python annotation of a JSON Schema that `type_schema` can write.

    Raises:
        BadTool: it says something that no annotation here can.
    """
    kind = schema.get("type")
    if "anyOf" in schema:
        return " | ".join(schema_type(option) for option in schema["anyOf"])
    if kind is None:
        return "Any"
    if kind in _NAMES:
        return _NAMES[kind]
    if kind == "array" and "prefixItems" in schema:
        return f"tuple[{', '.join(schema_type(part) for part in schema['prefixItems'])}]"
    if kind == "array":
        return f"list[{schema_type(schema['items'])}]" if "items" in schema else "list"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"dict[str, {schema_type(inner)}]" if isinstance(inner, Mapping) else "dict"
    raise BadTool(f"a schema of type {kind!r} has no annotation")


def fits(annotation: str, value: Any) -> bool:
    """Whether a JSON value is one of this type. A whole number is a float, a boolean is no number."""
    return _fits(_parsed(annotation), value)


def _fits(node: ast.expr, value: Any) -> bool:
    match node:
        case ast.Name(id="int"):
            return isinstance(value, int) and not isinstance(value, bool)
        case ast.Name(id="float"):
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case ast.Name(id="str"):
            return isinstance(value, str)
        case ast.Name(id="bool"):
            return isinstance(value, bool)
        case ast.Constant(value=None) | ast.Name(id="None"):
            return value is None
        case ast.Name(id="list"):
            return isinstance(value, list)
        case ast.Name(id="dict"):
            return isinstance(value, dict)
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return isinstance(value, list) and all(_fits(inner, v) for v in value)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, inner])):
            return isinstance(value, dict) and all(_fits(inner, v) for v in value.values())
        case ast.Subscript(value=ast.Name(id="tuple"), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return (
                isinstance(value, (list, tuple))
                and len(value) == len(parts)
                and all(_fits(p, v) for p, v in zip(parts, value, strict=True))
            )
        case ast.BinOp(op=ast.BitOr()):
            return any(_fits(option, value) for option in _options(node))
    return True


# -------------------------------------------------------------------------------------------------------- docstrings


def read_docstring(text: str) -> tuple[str, dict[str, str], str]:
    """(what it does, doc by parameter, doc of the result). Other sections, examples among them, are dropped."""
    what: list[str] = []
    sections: dict[str, list[str]] = {}
    current = what
    for line in inspect.cleandoc(text).splitlines():
        found = _SECTION.match(line)
        if found:
            current = sections.setdefault(found.group(1).lower().rstrip("s"), [])
        elif line.lstrip().startswith(">>>"):
            current = sections.setdefault("example", [])
        else:
            current.append(line)
    arguments: dict[str, str] = {}
    last = ""
    given = [line for name in ("arg", "argument", "parameter") for line in sections.get(name, [])]
    indent = min((len(line) - len(line.lstrip()) for line in given if line.strip()), default=0)
    for line in given:
        entry = _ENTRY.match(line)
        if entry and len(line) - len(line.lstrip()) == indent:
            last = entry.group(1)
            arguments[last] = entry.group(2).strip()
        elif last and line.strip():
            arguments[last] = f"{arguments[last]} {line.strip()}".strip()
    return _joined(what), arguments, _joined(sections.get("return", []))


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def write_docstring(tool: Tool) -> str:
    """What `read_docstring` reads back."""
    parts = [tool.doc]
    if any(p.doc for p in tool.parameters):
        parts.append("Args:\n" + "\n".join(f"    {p.name}: {p.doc}" for p in tool.parameters if p.doc))
    if tool.returns_doc:
        parts.append(f"Returns:\n    {tool.returns_doc}")
    return "\n\n".join(parts)


# --------------------------------------------------------------------------------------------------------- functions


def of_function(node: ast.FunctionDef, without: frozenset[str] = frozenset()) -> Tool:
    """The tool that a function is, its parameters `without` some that the caller does not give.

    Raises:
        BadTool: a type or the docstring is missing, or the parameters are not plain ones.
    """
    given = node.args
    if given.posonlyargs or given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        raise BadTool(f"`{node.name}` has parameters that are not plain ones")
    text = ast.get_docstring(node)
    if not text:
        raise BadTool(f"`{node.name}` has no docstring")
    if node.returns is None:
        raise BadTool(f"`{node.name}` does not say what type it returns")
    what, docs, result = read_docstring(text)
    parameters = []
    for argument in given.args:
        if argument.arg in without:
            continue
        if argument.annotation is None:
            raise BadTool(f"parameter `{argument.arg}` of `{node.name}` has no type")
        _schema(argument.annotation)
        doc = docs.get(argument.arg, "")
        parameters.append(Parameter(argument.arg, ast.unparse(argument.annotation), doc))
    _schema(node.returns)
    return Tool(node.name, what, tuple(parameters), ast.unparse(node.returns), result)


def signature_of(tool: Tool) -> str:
    """The signature and docstring of a tool, as the agents of CodeGym see it."""
    parameters = ", ".join(f"{p.name}: {p.type}" for p in tool.parameters)
    doc = write_docstring(tool).replace("\\", "\\\\").replace('"""', '\\"""').replace("\n", "\n    ")
    if doc.endswith('"'):
        doc = doc[:-1] + '\\"'
    return f'def {tool.name}({parameters}) -> {tool.returns}:\n    """{doc}"""'.replace("    \n", "\n")


def tool_of_signature(text: str) -> Tool:
    """The tool of a signature with docstring.

    Raises:
        BadTool: it is not one function.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise BadTool("this is no function") from error
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise BadTool("this is not one function")
    return of_function(body[0])


def schema_of(tool: Tool) -> dict[str, Any]:
    """The tool as an OpenAI-compatible function schema. What it returns stands in `returns`, which endpoints ignore."""
    properties = {p.name: {**type_schema(p.type), **({"description": p.doc} if p.doc else {})} for p in tool.parameters}
    returns = {**type_schema(tool.returns), **({"description": tool.returns_doc} if tool.returns_doc else {})}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.doc,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": [p.name for p in tool.parameters],
                "additionalProperties": False,
            },
            "returns": returns,
        },
    }


def tool_of_schema(schema: Mapping[str, Any]) -> Tool:
    """The tool of a function schema.

    Raises:
        BadTool: it is no function schema, or a type has no annotation.
    """
    try:
        function = schema["function"]
        properties = function.get("parameters", {}).get("properties", {})
        parameters = tuple(Parameter(name, schema_type(p), p.get("description", "")) for name, p in properties.items())
        returns = function.get("returns", {"type": "null"})
        return Tool(
            function["name"],
            function.get("description", ""),
            parameters,
            schema_type(returns),
            returns.get("description", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadTool("this is no function schema") from error
