"""The deterministic author: an environment from the syntax tree of a decomposed solution. No model is asked.

A solution is decomposed when its main function only steers: it reads its inputs piece by piece and leaves the work to
helper functions with types and docstrings. Then

- every helper that main calls becomes a tool;
- every input becomes hidden: main's own reads of it become calls of observation tools (`get_k()`, `count_numbers()`,
  `get_numbers(index)`, `count_grid_columns(row)` ...);
- a parameter of a helper that main always gives the container of the same name (a hidden input, or a container that
  main starts from a literal) is bound to the environment's state, so the agent does not give it, and what the helper
  changes in it stays changed;
- main itself, its reads and calls replaced by tool calls, is the solution that acts through tools only.

A solution whose main uses an input as a whole (sorts it, sums it, passes it under another name) is refused: hiding it
would need tools that nobody wrote.
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, field

from rlspec.runtime.worlds.codegym import guard
from rlspec.runtime.worlds.codegym.environment import SUBMIT, Design, ToolPlan
from rlspec.runtime.worlds.codegym.problems import Problem
from rlspec.runtime.worlds.codegym.toolschema import Parameter, of_function, read_docstring

_SCALARS = ("int", "float", "bool", "str")
_LISTS = re.compile(r"list\[(.+)\]")


class NotDecomposed(ValueError):
    """A solution of which no environment can be made; the message says what stands in the way."""


@dataclass(slots=True)
class _Draft:
    """What is collected while main is rewritten: observation tools by name, with the text of their functions."""

    tools: dict[str, ToolPlan] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)


def author(problem: Problem) -> Design:
    """The environment of a problem.

    Raises:
        NotDecomposed, guard.Unsafe, toolschema.BadTool: what stands in the way.
    """
    return design_of(problem.solution, problem.main, problem.statement, class_name_of(problem.id))


def class_name_of(identity: str) -> str:
    """`total.even_squares` -> `TotalEvenSquares`."""
    words = re.findall(r"[A-Za-z0-9]+", identity)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"E{name}"


def design_of(source: str, main: str, statement: str, class_name: str) -> Design:
    """The environment of a solution's text. Raises as `author`."""
    tree = guard.parsed(source)
    functions = {item.name: item for item in tree.body if isinstance(item, ast.FunctionDef)}
    if main not in functions:
        raise NotDecomposed(f"there is no function `{main}`")
    body = functions[main]
    inputs = _inputs(body)
    helpers = {name: node for name, node in functions.items() if name != main}
    if taken := inputs.keys() & {"index", "row", "column"}:
        raise NotDecomposed(f"`{min(taken)}` is what observation tools call their own parameter")
    if SUBMIT in functions:
        raise NotDecomposed(f"`{SUBMIT}` is the name of the tool that submits")
    called = _called(body, helpers)
    working = _working(body, called, helpers)
    bound = _bound(body, called, helpers, set(inputs), set(working))
    draft = _Draft()
    for name, node in called.items():
        told = of_function(node, frozenset(bound[name]))
        plan = ToolPlan(
            name=name,
            doc=told.doc,
            parameters=told.parameters,
            returns=told.returns,
            returns_doc=told.returns_doc,
            function=name,
            bound={p: p for p in bound[name]},
        )
        draft.tools[name] = plan
    rewritten = _Rewriter(inputs, _docs(body), bound, working, draft, helpers).main(copy.deepcopy(body))
    observing = {n: t for n, t in draft.tools.items() if t.observes}
    module = [item for item in tree.body if not (isinstance(item, ast.FunctionDef) and item.name == main)]
    text = "\n\n\n".join(
        [*(ast.unparse(item) for item in module), *(draft.code[n] for n in observing), ast.unparse(body)]
    )
    return Design(
        class_name=class_name,
        statement=statement,
        module=text + "\n",
        main=main,
        solve=ast.unparse(ast.fix_missing_locations(rewritten)) + "\n",
        tools=(*observing.values(), *(t for t in draft.tools.values() if not t.observes)),
        working=working,
        answer_type=ast.unparse(body.returns) if body.returns else "Any",
    )


def _inputs(main: ast.FunctionDef) -> dict[str, str]:
    """Main's parameters with their types."""
    if main.returns is None or not ast.get_docstring(main):
        raise NotDecomposed(f"`{main.name}` needs a docstring and the type that it returns")
    of_function(main)
    return {a.arg: ast.unparse(a.annotation) for a in main.args.args if a.annotation is not None}


def parameters_of(design: Design) -> dict[str, str]:
    """The hidden inputs of a design with their types."""
    tree = guard.parsed(design.module)
    main = next(i for i in tree.body if isinstance(i, ast.FunctionDef) and i.name == design.main)
    return {a.arg: ast.unparse(a.annotation) for a in main.args.args if a.annotation is not None}


def _docs(main: ast.FunctionDef) -> dict[str, str]:
    return read_docstring(ast.get_docstring(main) or "")[1]


def _called(main: ast.FunctionDef, helpers: dict[str, ast.FunctionDef]) -> dict[str, ast.FunctionDef]:
    """The helpers that main calls, in the order in which they are defined."""
    names = set()
    for node in ast.walk(main):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
    uses = {n.id for n in ast.walk(main) if isinstance(n, ast.Name)} & helpers.keys()
    if uses - names:
        raise NotDecomposed(f"`{main.name}` passes `{min(uses - names)}` on instead of calling it")
    return {name: node for name, node in helpers.items() if name in names}


def _arguments(call: ast.Call, helper: ast.FunctionDef) -> dict[str, ast.expr]:
    """A call's arguments by parameter."""
    names = [a.arg for a in helper.args.args]
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        raise NotDecomposed(f"line {call.lineno}: `{helper.name}` is called with unpacked arguments")
    given = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    if len(call.args) > len(names) or given.keys() != set(names):
        raise NotDecomposed(f"line {call.lineno}: `{helper.name}` is called with other arguments than it takes")
    return given


def _calls(main: ast.FunctionDef, helpers: dict[str, ast.FunctionDef]) -> list[tuple[str, dict[str, ast.expr]]]:
    return [
        (node.func.id, _arguments(node, helpers[node.func.id]))
        for node in ast.walk(main)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in helpers
    ]


def _is_container(annotation: ast.expr | None) -> bool:
    text = ast.unparse(annotation) if annotation is not None else ""
    return text.startswith(("list", "dict", "set"))


def _working(
    main: ast.FunctionDef, called: dict[str, ast.FunctionDef], helpers: dict[str, ast.FunctionDef]
) -> dict[str, str]:
    """Containers that main starts from a literal, once and at its top, and gives to helpers under their own name."""
    passed = {
        p
        for name, given in _calls(main, helpers)
        if name in called
        for p, value in given.items()
        if isinstance(value, ast.Name) and value.id == p
    }
    out: dict[str, str] = {}
    for item in main.body:
        match item:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ) if name in passed and isinstance(value, (ast.List, ast.Dict, ast.Set)):
                try:
                    out[name] = repr(ast.literal_eval(value))
                except ValueError:
                    continue
    return out


def _bound(
    main: ast.FunctionDef,
    called: dict[str, ast.FunctionDef],
    helpers: dict[str, ast.FunctionDef],
    inputs: set[str],
    working: set[str],
) -> dict[str, frozenset[str]]:
    """By helper, the parameters that the state gives."""
    out: dict[str, frozenset[str]] = {}
    for name, node in called.items():
        kinds = {a.arg: a.annotation for a in node.args.args}
        candidates = {p for p in kinds if p in inputs | working and _is_container(kinds[p])}
        for other, given in _calls(main, helpers):
            if other == name:
                candidates &= {p for p, v in given.items() if isinstance(v, ast.Name) and v.id == p}
        out[name] = frozenset(candidates)
    return out


class _Rewriter(ast.NodeTransformer):
    """Main, acting through tools: `tool_("name", argument = ...)`, `each_("count", "get")` for loops."""

    def __init__(
        self,
        inputs: dict[str, str],
        docs: dict[str, str],
        bound: dict[str, frozenset[str]],
        working: dict[str, str],
        draft: _Draft,
        helpers: dict[str, ast.FunctionDef],
    ) -> None:
        self.inputs, self.docs, self.bound, self.working = inputs, docs, bound, working
        self.draft, self.helpers = draft, helpers
        self.scalars: list[str] = []

    def main(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Main without parameters."""
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in stored & self.inputs.keys():
            if not self._scalar(name):
                raise NotDecomposed(f"`{node.name}` replaces its input `{name}`")
        body = [self.visit(item) for item in node.body if not self._starts_working(item)]
        reads = [
            ast.Assign(targets=[ast.Name(name, ast.Store())], value=self._tool(self._read(name)))
            for name in self.inputs
            if name in self.scalars
        ]
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.FunctionDef(node.name, empty, [*reads, *body], [], None, lineno=node.lineno)

    def _starts_working(self, item: ast.stmt) -> bool:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name in self.working
        return False

    def _scalar(self, name: str) -> bool:
        return self.inputs[name] in _SCALARS

    # ------------------------------------------------------------------------------------------------- tool calls

    @staticmethod
    def _tool(name: str, **arguments: ast.expr) -> ast.Call:
        keywords = [ast.keyword(k, v) for k, v in arguments.items()]
        return ast.Call(ast.Name("tool_", ast.Load()), [ast.Constant(name)], keywords)

    def _observe(self, name: str, doc: str, parameters: list[Parameter], returns: str, of: str, code: str) -> str:
        """Add an observation tool, once; its name."""
        if name in self.helpers:
            raise NotDecomposed(f"`{name}` is the name of an observation tool")
        if name not in self.draft.tools:
            shown = ", ".join([f"{of}: {self.inputs[of]}", *(f"{p.name}: {p.type}" for p in parameters)])
            self.draft.code[name] = f"def {name}({shown}) -> {returns}:\n    {code}"
            self.draft.tools[name] = ToolPlan(
                name=name,
                doc=doc,
                parameters=tuple(parameters),
                returns=returns,
                function=name,
                bound={of: of},
                observes=True,
            )
        return name

    def _about(self, of: str) -> str:
        return f" ({self.docs[of]})" if self.docs.get(of) else ""

    def _read(self, of: str) -> str:
        return self._observe(f"get_{of}", f"Read {of}{self._about(of)}.", [], self.inputs[of], of, f"return {of}")

    def _item_type(self, of: str, depth: int) -> str:
        kind = self.inputs[of]
        for _ in range(depth):
            found = _LISTS.fullmatch(kind)
            if kind == "str":
                return "str"
            if found is None:
                raise NotDecomposed(f"`{of}` of type {self.inputs[of]} is read by index")
            kind = found.group(1)
        return kind

    def _count(self, of: str) -> str:
        self._item_type(of, 1)
        return self._observe(
            f"count_{of}", f"How many {of} there are{self._about(of)}.", [], "int", of, f"return len({of})"
        )

    def _get(self, of: str) -> str:
        index = Parameter("index", "int", "place, counted from 0")
        code = f"if not 0 <= index < len({of}): raise IndexError('there is no such index')\n    return {of}[index]"
        doc = f"Read one of {of}{self._about(of)}."
        return self._observe(f"get_{of}", doc, [index], self._item_type(of, 1), of, code)

    def _count_row(self, of: str) -> str:
        self._item_type(of, 2)
        row = Parameter("row", "int", "row, counted from 0")
        code = f"if not 0 <= row < len({of}): raise IndexError('there is no such row')\n    return len({of}[row])"
        return self._observe(f"count_{of}_columns", f"How many columns a row of {of} has.", [row], "int", of, code)

    def _cell(self, of: str) -> str:
        row, column = (Parameter(n, "int", f"{n}, counted from 0") for n in ("row", "column"))
        code = (
            f"if not 0 <= row < len({of}) or not 0 <= column < len({of}[row]):\n"
            f"        raise IndexError('there is no such cell')\n    return {of}[row][column]"
        )
        doc = f"Read one cell of {of}{self._about(of)}."
        return self._observe(f"get_{of}_cell", doc, [row, column], self._item_type(of, 2), of, code)

    # ------------------------------------------------------------------------------------------------- visiting

    def _hidden(self, node: ast.expr) -> str | None:
        """The hidden container that a name is."""
        if isinstance(node, ast.Name) and node.id in self.inputs:
            return node.id if not self._scalar(node.id) or self.inputs[node.id] == "str" else None
        return None

    def _looped(self, node: ast.expr) -> ast.expr:
        """What a loop goes through."""
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner], keywords=[]) if self._hidden(inner):
                return ast.Call(ast.Name("enumerate", ast.Load()), [self._looped(inner)], [])
            case ast.Name() if (of := self._hidden(node)) is not None:
                if self._item_type(of, 1).startswith("list"):
                    raise NotDecomposed(f"line {node.lineno}: a loop over the rows of `{of}` reads them as a whole")
                names: list[ast.expr] = [ast.Constant(self._count(of)), ast.Constant(self._get(of))]
                return ast.Call(ast.Name("each_", ast.Load()), names, [])
        visited = self.visit(node)
        assert isinstance(visited, ast.expr)
        return visited

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._looped(node.iter)
        node.body = [self.visit(item) for item in node.body]
        node.orelse = [self.visit(item) for item in node.orelse]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter = self._looped(node.iter)
        node.ifs = [self.visit(item) for item in node.ifs]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node.value:
            case ast.Subscript(value=inner, slice=row) if (of := self._hidden(inner)) is not None:
                self._plain(node, row)
                return self._tool(self._cell(of), row=self.visit(row), column=self.visit(node.slice))
        of = self._hidden(node.value)
        if of is None:
            return self.generic_visit(node)
        self._plain(node, node.slice)
        if self._item_type(of, 1).startswith("list"):
            raise NotDecomposed(f"line {node.lineno}: `{of}` is read a whole row at once")
        return self._tool(self._get(of), index=self.visit(node.slice))

    @staticmethod
    def _plain(node: ast.Subscript, *indices: ast.expr) -> None:
        if not isinstance(node.ctx, ast.Load):
            raise NotDecomposed(f"line {node.lineno}: main changes its input itself")
        if any(isinstance(i, ast.Slice) for i in (*indices, node.slice)):
            raise NotDecomposed(f"line {node.lineno}: a slice of an input is read at once")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name() as inner]) if self._hidden(inner):
                return self._tool(self._count(inner.id))
            case ast.Call(func=ast.Name(id="len"), args=[ast.Subscript(value=inner, slice=row)]) if (
                of := self._hidden(inner)
            ) is not None:
                return self._tool(self._count_row(of), row=self.visit(row))
            case ast.Call(func=ast.Name(id="enumerate")):
                return self._looped(node) if node.args and self._hidden(node.args[0]) else self.generic_visit(node)
            case ast.Call(func=ast.Name(id=name)) if name in self.bound:
                given = _arguments(node, self.helpers[name])
                free = {p: self.visit(v) for p, v in given.items() if p not in self.bound[name]}
                return self._tool(name, **free)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self.inputs:
            if not self._scalar(node.id):
                raise NotDecomposed(f"line {node.lineno}: `{node.id}` is used as a whole")
            if node.id not in self.scalars:
                if f"count_{node.id}" in self.draft.tools:
                    raise NotDecomposed(f"line {node.lineno}: `{node.id}` is read by index and as a whole")
                self.scalars.append(node.id)
        elif isinstance(node.ctx, ast.Load) and node.id in self.working:
            raise NotDecomposed(f"line {node.lineno}: `{node.id}` is used as a whole; leave it to the helpers")
        elif node.id in ("tool_", "each_"):
            raise NotDecomposed(f"line {node.lineno}: `{node.id}` is taken")
        return node
