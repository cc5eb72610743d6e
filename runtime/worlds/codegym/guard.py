"""The first fence around written code: what its text may contain at all.

Solutions and tools are plain functions over plain values. Their syntax tree is checked against a list of what such
functions need; private and dunder names, attributes that lead to frames and globals, imports beyond a few modules,
decorators, classes and everything asynchronous are not on it. A list of this kind has been walked around in every
Python there is, so it is not what keeps code in: that is the jail in which it runs (see `zygote.py` beside this file).
The fence is there because it says early and by line what is wrong.
"""

from __future__ import annotations

import ast

MODULES = ("math", "itertools", "functools", "collections", "heapq", "bisect", "string")
"""Modules that written code may import; the jail has loaded them before it closes."""

LONGEST = 40_000
MOST_NODES = 6_000

BUILTINS = frozenset(
    {
        "abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "int",
        "isinstance", "iter", "len", "list", "map", "max", "min", "next", "ord", "pow", "range", "repr", "reversed",
        "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip", "True", "False", "None", "ArithmeticError",
        "Exception", "IndexError", "KeyError", "LookupError", "OverflowError", "RuntimeError", "StopIteration",
        "TypeError", "ValueError", "ZeroDivisionError",
    }
)  # fmt: skip
"""Names of builtins that written code sees."""

_FORBIDDEN_NAMES = frozenset(
    {
        "eval", "exec", "compile", "open", "input", "print", "globals", "locals", "vars", "dir", "getattr",
        "setattr", "delattr", "hasattr", "type", "object", "super", "classmethod", "staticmethod", "property",
        "memoryview", "bytearray", "breakpoint", "help", "id", "hash", "callable", "format", "quit", "exit",
    }
)  # fmt: skip
_FORBIDDEN_ATTRIBUTES = frozenset(
    {
        "format", "format_map", "mro", "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "ag_frame",
        "f_back", "f_globals", "f_locals", "f_builtins", "f_code", "tb_frame", "tb_next", "func_globals",
        "func_code", "co_code", "co_consts",
    }
)  # fmt: skip
_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For,
    ast.While, ast.If, ast.Raise, ast.Try, ast.ExceptHandler, ast.Assert, ast.Import, ast.ImportFrom, ast.alias,
    ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Delete, ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp,
    ast.Lambda, ast.IfExp, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Yield,
    ast.Compare, ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Attribute, ast.Subscript,
    ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice, ast.comprehension, ast.Nonlocal,
    ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


class Unsafe(ValueError):
    """Code that is refused; the message names the line and what stands there."""


def parsed(source: str) -> ast.Module:
    """The syntax tree of a module of functions.

    Raises:
        Unsafe: it is no Python, too large, or holds something that such functions do not need.
    """
    if len(source) > LONGEST:
        raise Unsafe(f"{len(source):,} characters of code are more than {LONGEST:,}")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unsafe(f"this is no Python: {error}") from error
    for count, node in enumerate(ast.walk(tree)):
        if count >= MOST_NODES:
            raise Unsafe(f"the code has more than {MOST_NODES:,} nodes")
        _check(node)
    for item in tree.body:
        constant = isinstance(item, ast.Assign) and isinstance(item.value, (ast.Constant, ast.Tuple))
        text = isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
        if not (isinstance(item, (ast.FunctionDef, ast.Import, ast.ImportFrom)) or constant or text):
            raise Unsafe(f"line {item.lineno}: a module holds functions, imports and constants")
    return tree


def _check(node: ast.AST) -> None:
    line = getattr(node, "lineno", 0)
    if not isinstance(node, _ALLOWED):
        raise Unsafe(f"line {line}: {type(node).__name__} is not allowed")
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name):
            if name.startswith("_") and name != "_":
                raise Unsafe(f"line {line}: the private name `{name}`")
            if name in _FORBIDDEN_NAMES:
                raise Unsafe(f"line {line}: `{name}` is not allowed")
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                raise Unsafe(f"line {line}: decorators are not allowed")
        case ast.Attribute(attr=name):
            if name.startswith("_") or name in _FORBIDDEN_ATTRIBUTES:
                raise Unsafe(f"line {line}: the attribute `{name}` is not allowed")
        case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
            if name.startswith("_"):
                raise Unsafe(f"line {line}: the private name `{name}`")
        case ast.Import(names=names):
            for alias in names:
                _check_module(alias.name, alias.asname, line)
        case ast.ImportFrom(module=module, names=names, level=level):
            _check_module("." if level else module or "", None, line)
            for alias in names:
                if alias.name.startswith("_") or alias.name == "*" or (alias.asname or "").startswith("_"):
                    raise Unsafe(f"line {line}: `{alias.name}` is not allowed")


def _check_module(name: str, alias: str | None, line: int) -> None:
    if name not in MODULES or (alias or "").startswith("_"):
        raise Unsafe(f"line {line}: import of `{name}`; allowed are {', '.join(MODULES)}")
