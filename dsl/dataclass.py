"""`dataclass` of the standard library, made in a quarter of the time.

The compiler has more than a hundred small classes. The standard decorator writes out and compiles up to seven methods
for each of them, a millisecond a class, which every command waits for. Here only `__init__` is compiled; the other
methods are shared, and `__dataclass_fields__` (for `fields`, `replace`, `asdict`) is made when somebody asks for it.

It takes `frozen`, `slots` and `eq`; a class that needs more (inherited fields, say) gets the standard decorator.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """As `dataclasses.dataclass`."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        own = _fields_of(cls) if options.keys() <= {"frozen", "slots", "eq"} else None
        if own is None:
            return dataclasses.dataclass(cls, **options)
        return _made(cls, own, **options)


class _Asked:
    """`__dataclass_fields__` and `__dataclass_params__` of a class, made by the standard decorator from a class with
    the same annotations."""

    def __init__(self, name: str, body: dict[str, Any], frozen: bool, eq: bool) -> None:
        self.name, self.body, self.options = name, body, {"frozen": frozen, "eq": eq}

    def __get__(self, _: object, owner: type) -> Any:
        shadow: Any = dataclasses.dataclass(**self.options)(type(owner.__name__, (), dict(self.body)))
        found = getattr(shadow, self.name)
        if self.name in vars(owner):  # else it is a subclass that asks
            type.__setattr__(owner, self.name, found)
        return found


def _fields_of(cls: type) -> dict[str, Any] | None:
    """The fields with their defaults; None for a class that needs the standard decorator."""
    if cls.__bases__ != (object,) or "__slots__" in vars(cls):
        return None
    found = {}
    for name, annotation in cls.__annotations__.items():
        if not isinstance(annotation, str) or "InitVar" in annotation or "KW_ONLY" in annotation:
            return None
        if not annotation.startswith(("ClassVar", "typing.ClassVar")):
            found[name] = cls.__dict__.get(name, dataclasses.MISSING)
    return found


def _made(cls: type, own: dict[str, Any], frozen: bool = False, slots: bool = False, eq: bool = True) -> type:
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    hidden = {"__annotations__": {n: body["__annotations__"][n] for n in own}, "__module__": cls.__module__}
    hidden |= {name: default for name, default in own.items() if default is not dataclasses.MISSING}
    for name, default in own.items():
        plain = not isinstance(default, dataclasses.Field)
        kept = default if plain else default.default
        if slots or kept is dataclasses.MISSING:
            body.pop(name, None)
        else:
            body[name] = kept
    names = tuple(own)
    given = tuple(n for n, d in own.items() if not isinstance(d, dataclasses.Field) or d.init)
    body["__match_args__"] = given
    for asked in ("__dataclass_fields__", "__dataclass_params__"):
        body[asked] = _Asked(asked, hidden, frozen, eq)
    shown = tuple(n for n, d in own.items() if not isinstance(d, dataclasses.Field) or d.repr)
    body.setdefault("__repr__", _repr_of(shown))
    if eq:
        values = _values_of(tuple(n for n, d in own.items() if not isinstance(d, dataclasses.Field) or d.compare))
        body.setdefault("__eq__", _eq_of(values))
        if body.get("__hash__") is None:
            body["__hash__"] = _hash_of(values) if frozen else None
    if frozen:
        body["__setattr__"], body["__delattr__"] = _refuse_set, _refuse_delete
    if slots:
        body["__slots__"] = names
        body.setdefault("__getstate__", _state_of(names))
        body.setdefault("__setstate__", _restore_of(names))
    made = type(cls)(cls.__name__, cls.__bases__, body) if slots else cls
    if not slots:
        for name, value in body.items():
            if vars(cls).get(name, cls) is not value:
                setattr(cls, name, value)
        for name in own.keys() - body.keys():
            if name in vars(cls):
                delattr(cls, name)
    init = _init_of(made, own, frozen, slots)
    type.__setattr__(made, "__init__", init)
    made.__qualname__ = cls.__qualname__
    return made


def _init_of(made: type, own: dict[str, Any], frozen: bool, slots: bool) -> Any:
    names: dict[str, Any] = {"_MISSING": dataclasses.MISSING, "_put": object.__setattr__}
    parameters, lines = ["self"], []
    for name, default in own.items():
        init, factory, value = True, None, default
        if isinstance(default, dataclasses.Field):
            init, value = default.init, default.default
            factory = default.default_factory if default.default_factory is not dataclasses.MISSING else None
        if factory is not None:
            names[f"_make_{name}"], value = factory, dataclasses.MISSING
        if init:
            optional = factory is not None or value is not dataclasses.MISSING
            names[f"_default_{name}"] = value
            parameters.append(f"{name}=_default_{name}" if optional else name)
            source = f"_make_{name}() if {name} is _MISSING else {name}" if factory is not None else name
        elif factory is not None or value is not dataclasses.MISSING:
            names[f"_default_{name}"] = value
            source = f"_make_{name}()" if factory is not None else f"_default_{name}"
        else:
            continue  # `__post_init__` gives it
        if frozen and slots:  # the slot itself: quicker than object.__setattr__, which would look for it
            names[f"_put_{name}"] = vars(made)[name].__set__
            lines.append(f"_put_{name}(self, {source})")
        else:
            lines.append(f"_put(self, {name!r}, {source})" if frozen else f"self.{name} = {source}")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])
    exec(compile(text, f"<__init__ of {made.__qualname__}>", "exec"), names)
    init = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__module__ = made.__module__
    return init


# ------------------------------------------------------------------------------------------------- shared methods


def _values_of(names: tuple[str, ...]) -> Any:
    if not names:
        return lambda self: ()
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda self: (one(self),)
    return attrgetter(*names)


def _eq_of(values: Any) -> Any:
    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash_of(values: Any) -> Any:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _repr_of(names: tuple[str, ...]) -> Any:
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _state_of(names: tuple[str, ...]) -> Any:
    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    return __getstate__


def _restore_of(names: tuple[str, ...]) -> Any:
    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return __setstate__


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
