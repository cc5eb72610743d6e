"""Pages from templates: HTML that stands alone (no script, no network, its own style for screen, dark screen and
paper), and Markdown with formulas in LaTeX. Whatever a spec says is escaped."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from rlspec.compiler.showing.latex import latex
from rlspec.compiler.showing.mathml import mathml
from rlspec.compiler.showing.maths import defined, maths_of, source_of
from rlspec.compiler.showing.sheet import Part, Sheet
from rlspec.compiler.showing.words import SIGNS, component_lines, headline
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|!~&$])")
_LINE_START = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")


def html_page(page: Sheet, drawing: str = "") -> str:
    """The page of a spec; `drawing` is an SVG of ours to stand above its roles."""
    from markupsafe import Markup

    return rendered("doc.html.j2", page=page, drawing=Markup(drawing), typeset=_typeset, defined=_defined)


def markdown_page(page: Sheet, drawing: str = "") -> str:
    """The same as Markdown; `drawing` is a Mermaid diagram."""

    def settings(part: Part) -> str:
        return environment().get_template("settings.md.j2").render(part=part)

    text = environment().get_template("doc.md.j2").render(
        page=page, drawing=drawing, settings=settings, signs=SIGNS, headline=headline,
        typeset=lambda node: latex(maths_of(node)), defined=lambda name, node: latex(defined(name, node)),
    )  # fmt: skip
    return _spaced(text)


def _spaced(text: str) -> str:
    """One blank line between blocks of Markdown, none within a table, list, formula or fence."""
    out: list[str] = []
    inside, before, gap = "", "", False
    for line in text.split("\n"):
        if inside:
            out.append(line)
            inside = "" if line.startswith(inside) else inside
            continue
        if not line.strip():
            gap = True
            continue
        kind = next((sign for sign in ("|", "- ", "  - ", "$$", "```") if line.startswith(sign)), "p")
        kind = "- " if kind == "  - " else kind
        if out and (gap or kind != before or kind not in ("|", "- ")):
            out.append("")
        out.append(line)
        gap, before, inside = False, kind, kind if kind in ("$$", "```") else ""
    return "\n".join(out) + "\n"


def rendered(template: str, **values: Any) -> str:
    """A template of ours in the frame that all pages share."""
    from markupsafe import Markup

    css = Markup(files("rlspec.compiler.showing").joinpath("page.css").read_text(encoding="utf-8"))
    return environment().get_template(template).render(css=css, signs=SIGNS, headline=headline, **values)


@cache
def environment() -> Environment:
    """HTML is escaped by itself; Markdown where its templates say `words`, `code` or `cell`."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str:
        return files("rlspec.compiler.showing").joinpath(name).read_text(encoding="utf-8")

    made = Environment(
        loader=FunctionLoader(load),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "words": words,
        "code": code,
        "lines": component_lines,
        "cell": lambda text: code(text).replace("|", "\\|"),
    }
    return made


def words(text: str) -> str:
    """Text in a paragraph or cell of Markdown: one line, and nothing in it is markup."""
    line = " ".join(str(text).split())
    return _LINE_START.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", line))


def code(text: str) -> str:
    """Text between as many backticks as it needs."""
    line = " ".join(str(text).split())
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    padded = f" {line} " if line.startswith("`") or line.endswith("`") else line
    return f"{fence}{padded}{fence}"


def cell(text: str) -> str:
    """Code within a table."""
    return code(text).replace("|", "\\|")


def _typeset(node: tree.Expression) -> Any:
    from markupsafe import Markup

    return Markup(mathml(maths_of(node), source_of(node)))


def _defined(name: str, node: tree.Expression) -> Any:
    from markupsafe import Markup

    return Markup(mathml(defined(name, node), f"{name} = {source_of(node)}"))
