"""What is compiled from texts of our own: code that classes write for themselves, regular expressions, parse tables.

Compiling them again takes every command some ten milliseconds, and the result depends on nothing but the text and the
interpreter. So whoever starts a command may put in KEPT what an earlier run found in MADE (`rlspec.cli.bundle` does, in
a file of byte code); without that, everything is compiled when it is first used.

Never for a text that comes from a spec: what is kept would grow with every run.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable

from rlspec.dsl.annotations import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from types import CodeType

KEPT: dict[str, bytes] = {}
MADE: dict[str, bytes] = {}
"""By key, as `marshal` writes them: what an earlier run has made, and what this one has made besides."""


def kept(key: str, make: Callable[[], Any]) -> Any:
    """A value of plain data or code: from an earlier run, else made now. The key says all that it depends on."""
    found = KEPT.get(key)
    if found is not None:
        return marshal.loads(found)
    value = make()
    MADE[key] = marshal.dumps(value)
    return value


def code(text: str, name: str, mode: str) -> CodeType:
    """As `compile`."""
    made: CodeType = kept(f"{mode} {name}\0{text}", lambda: compile(text, name, mode, dont_inherit=True))
    return made


DOTALL, MULTILINE = 16, 8  # as in `re`, whose import takes longer than to match with a pattern that is kept
_SPECIAL = {ord(sign): f"\\{sign}" for sign in "()[]{}?*+-|^$\\.&~# \t\n\r\v\f"}


def escaped(text: str) -> str:
    """As `re.escape`."""
    return text.translate(_SPECIAL)


class _Late:
    """A regular expression that is compiled when somebody matches with it."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern, self.flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(_compiled(self.pattern, self.flags), name)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but only when it is needed."""
    late: Any = _Late(text, flags)
    made: re.Pattern[str] = late
    return made


def _compiled(text: str, flags: int) -> re.Pattern[str]:
    try:
        import _sre  # type: ignore[import-not-found]

        def parts() -> tuple[Any, ...]:
            from re import _compiler as compiler  # type: ignore[attr-defined]
            from re import _parser as parser  # type: ignore[attr-defined]

            tree = parser.parse(text, flags)
            names: list[str | None] = [None] * tree.state.groups
            for name, number in tree.state.groupdict.items():
                names[number] = name
            whole = int(flags | tree.state.flags)
            plain = list(map(int, compiler._code(tree, flags)))
            return text, whole, plain, tree.state.groups - 1, tree.state.groupdict, tuple(names)

        made: re.Pattern[str] = _sre.compile(*kept(f"pattern {int(flags)} {text}", parts))
        return made
    except (ImportError, AttributeError, TypeError):  # another Python, which does it otherwise inside
        import re

        return re.compile(text, flags)
