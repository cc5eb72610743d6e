"""What we use of `typing`, without its import, which takes as long as a third of a check's own work.

To a type checker all of these are those of `typing`. While the program runs, only the fields of records are ever looked
at (`Annotated`, `Literal` and unions of them, by `get_origin` and `get_args`); everything else is a name in annotations
that nobody evaluates. Annotations made by `typing` itself, as plugins may have them, are understood as well.
"""

from __future__ import annotations

import sys
from types import GenericAlias, UnionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Annotated as Annotated
    from typing import Any as Any
    from typing import ClassVar as ClassVar
    from typing import Literal as Literal
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol
    from typing import Self as Self
    from typing import TypeAlias as TypeAlias
    from typing import TypeVar as TypeVar
    from typing import dataclass_transform as dataclass_transform
    from typing import get_args as get_args
    from typing import get_origin as get_origin

    def is_any(annotation: Any) -> bool: ...
else:

    class _Form:
        """A special form, or one with its arguments: `origin` is what it is a form of."""

        __slots__ = ("args", "name", "origin")

        def __init__(self, name, origin=None, args=()):
            self.name, self.origin, self.args = name, origin, args

        def __getitem__(self, args):
            args = args if isinstance(args, tuple) else (args,)
            if self is Annotated and isinstance(args[0], _Form) and args[0].origin is Annotated:
                args = (*args[0].args, *args[1:])
            if self is Literal:  # one within another is flat
                args = tuple(b for a in args for b in (a.args if isinstance(a, _Form) else (a,)))
            return _Form(self.name, self, args)

        def __or__(self, other):
            return _Form("Union", UnionType, (*_options(self), *_options(other)))

        def __ror__(self, other):
            return _Form("Union", UnionType, (*_options(other), *_options(self)))

        def __eq__(self, other):
            if not isinstance(other, _Form):
                return NotImplemented
            return (self.name, self.origin, self.args) == (other.name, other.origin, other.args)

        def __hash__(self):
            return hash((self.name, len(self.args)))

        def __repr__(self):
            if self.origin is UnionType:
                return " | ".join(a.__name__ if isinstance(a, type) else repr(a) for a in self.args)
            shown = ", ".join(a.__name__ if isinstance(a, type) else repr(a) for a in self.args)
            return f"{self.name}[{shown}]" if self.args else self.name

    def _options(form):
        if form is None:
            return (type(None),)
        return get_args(form) if get_origin(form) is UnionType else (form,)

    Annotated, Literal, Any, ClassVar, Self, TypeAlias = map(
        _Form, ("Annotated", "Literal", "Any", "ClassVar", "Self", "TypeAlias")
    )

    def get_origin(annotation):
        """As that of `typing`; UnionType for every union."""
        if isinstance(annotation, _Form):
            return annotation.origin
        if isinstance(annotation, UnionType):
            return UnionType
        if isinstance(annotation, GenericAlias):
            return annotation.__origin__
        typing = sys.modules.get("typing")
        if typing is None:
            return None
        found = typing.get_origin(annotation)
        same = {typing.Annotated: Annotated, typing.Literal: Literal, typing.Union: UnionType}
        return same.get(found, found) if found.__hash__ else found

    def get_args(annotation):
        """As that of `typing`."""
        if isinstance(annotation, _Form):
            return annotation.args
        if isinstance(annotation, UnionType | GenericAlias):
            return annotation.__args__
        typing = sys.modules.get("typing")
        return typing.get_args(annotation) if typing else ()

    def is_any(annotation):
        """Whether it is `Any`."""
        return annotation is Any or annotation is getattr(sys.modules.get("typing"), "Any", Any)

    class Protocol:
        def __class_getitem__(cls, _):
            return cls

    class TypeVar:
        def __init__(self, name, *_, **__):
            self.__name__ = name

    class _Named(type):
        """Makes a named tuple of a class with annotated fields."""

        def __new__(cls, name, _, body):
            from collections import namedtuple

            made = namedtuple(name, body["__annotations__"], module=body["__module__"])
            for key, value in body.items():
                if key not in ("__module__", "__qualname__", "__annotations__"):
                    setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})

    def dataclass_transform(**_):
        return lambda cls: cls
