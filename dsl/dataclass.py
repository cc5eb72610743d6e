"""`dataclass` of the standard library, made in a quarter of the time.

The compiler has more than a hundred small classes. The standard decorator writes out and compiles up to seven methods
for each of them, a millisecond a class, which every command waits for. Here only `__init__` is compiled, when it is
first called; the other methods are shared, and `__dataclass_fields__` (for `fields`, `replace`, `asdict`) is made when
somebody asks for it.

It takes `frozen`, `slots` and `eq`; a class that needs more (inherited fields, say) gets the standard decorator.
`field` and `replace` are those of the standard library too, without its import: `dataclasses` brings `inspect` with it,
which brings the tools that take Python's own source apart.
"""

from __future__ import annotations

import sys
from operator import attrgetter

from rlspec.dsl import compiled
from rlspec.dsl.annotations import TYPE_CHECKING, Any

_MISSING: Any = object()  # there is no default

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def field(**options: Any) -> Any:
        """As `dataclasses.field`."""
        return _Field(options)

    def replace(value: Any, /, **changes: Any) -> Any:
        """As `dataclasses.replace`."""
        cls = value.__class__
        given = cls.__dict__.get("_given_here")
        if given is None:
            import dataclasses

            return dataclasses.replace(value, **changes)
        if not changes.keys() <= set(given):
            return cls(**changes)  # says which field there is not
        return cls(*[changes[name] if name in changes else getattr(value, name) for name in given])

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """As `dataclasses.dataclass`."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        own = _fields_of(cls) if options.keys() <= {"frozen", "slots", "eq"} else None
        if own is None:
            import dataclasses

            for name, default in list(vars(cls).items()):
                if isinstance(default, _Field):
                    setattr(cls, name, default.standard())
            return dataclasses.dataclass(cls, **options)
        return _made(cls, own, **options)


def names_of(value: Any) -> tuple[str, ...]:
    """The names of the fields of such a class's instance, those that it is made of; none for anything else."""
    return type(value).__dict__.get("_given_here", ())


class _Field:
    """What `field` was told of a field."""

    __slots__ = ("compare", "default", "factory", "init", "options", "repr")

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.default = options.get("default", _MISSING)
        self.factory = options.get("default_factory", _MISSING)
        self.init, self.repr, self.compare = (options.get(name, True) for name in ("init", "repr", "compare"))

    def standard(self) -> Any:
        """The field as the standard library has it."""
        import dataclasses

        return dataclasses.field(**self.options)


def _told(default: Any) -> _Field:
    """A field of what stands behind its name in the class, if anything."""
    if isinstance(default, _Field):
        return default
    standard = sys.modules.get("dataclasses")  # whoever gives a field of the standard library has imported it
    if standard is None or not isinstance(default, standard.Field):
        return _Field({} if default is _MISSING else {"default": default})
    told = {"init": default.init, "repr": default.repr, "compare": default.compare, "hash": default.hash}
    for name in ("default", "default_factory"):
        if getattr(default, name) is not standard.MISSING:
            told[name] = getattr(default, name)
    return _Field(told)


class _Asked:
    """`__dataclass_fields__` and `__dataclass_params__` of a class, made by the standard decorator from a class with
    the same annotations."""

    def __init__(self, name: str, body: dict[str, Any], frozen: bool, eq: bool) -> None:
        self.name, self.body, self.options = name, body, {"frozen": frozen, "eq": eq}

    def __get__(self, _: object, owner: type) -> Any:
        import dataclasses

        body = {name: part.standard() if isinstance(part, _Field) else part for name, part in self.body.items()}
        shadow: Any = dataclasses.dataclass(**self.options)(type(owner.__name__, (), body))
        found = getattr(shadow, self.name)
        if self.name in vars(owner):  # else it is a subclass that asks
            type.__setattr__(owner, self.name, found)
        return found


def _fields_of(cls: type) -> dict[str, _Field] | None:
    """The fields; None for a class that needs the standard decorator."""
    if cls.__bases__ != (object,) or "__slots__" in vars(cls):
        return None
    found = {}
    for name, annotation in cls.__annotations__.items():
        if not isinstance(annotation, str) or "InitVar" in annotation or "KW_ONLY" in annotation:
            return None
        if not annotation.startswith(("ClassVar", "typing.ClassVar")):
            found[name] = _told(cls.__dict__.get(name, _MISSING))
    return found


def _made(cls: type, own: dict[str, _Field], frozen: bool = False, slots: bool = False, eq: bool = True) -> type:
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    hidden = {"__annotations__": {n: body["__annotations__"][n] for n in own}, "__module__": cls.__module__, **own}
    for name, told in own.items():
        if slots or told.default is _MISSING:
            body.pop(name, None)
        else:
            body[name] = told.default
    names = tuple(own)
    given = tuple(n for n, told in own.items() if told.init)
    body["__match_args__"] = body["_given_here"] = given
    for asked in ("__dataclass_fields__", "__dataclass_params__"):
        body[asked] = _Asked(asked, hidden, frozen, eq)
    body.setdefault("__repr__", _repr_of(tuple(n for n, told in own.items() if told.repr)))
    if eq:
        values = _values_of(tuple(n for n, told in own.items() if told.compare))
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
    type.__setattr__(made, "__init__", _first_init(made, own, frozen, slots))
    made.__qualname__ = cls.__qualname__
    return made


def _first_init(made: type, own: dict[str, _Field], frozen: bool, slots: bool) -> Any:
    """An `__init__` that puts the real one in its place when the first instance is made: most runs need half of the
    classes."""

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        init = _init_of(made, own, frozen, slots)
        type.__setattr__(made, "__init__", init)
        init(self, *values, **named)

    return __init__


def _init_of(made: type, own: dict[str, _Field], frozen: bool, slots: bool) -> Any:
    names: dict[str, Any] = {"_MISSING": _MISSING, "_put": object.__setattr__}
    parameters, lines = ["self"], []
    for name, told in own.items():
        made_by = told.factory is not _MISSING
        names[f"_make_{name}"], names[f"_default_{name}"] = told.factory, told.default
        if told.init:
            optional = made_by or told.default is not _MISSING
            parameters.append(f"{name}=_default_{name}" if optional else name)
            source = f"_make_{name}() if {name} is _MISSING else {name}" if made_by else name
        elif made_by or told.default is not _MISSING:
            source = f"_make_{name}()" if made_by else f"_default_{name}"
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
    exec(compiled.code(text, f"<__init__ of {made.__qualname__}>", "exec"), names)
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
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")
