"""The fields of records: what `Annotated` and `Field` say of them, and the checks that follow from their types."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping

from rlspec.dsl import compiled
from rlspec.dsl.annotations import Annotated, Any, Literal, get_args, get_origin, is_any

Place = tuple[str | int, ...]
Problem = dict[str, Any]
# Takes a value and where it stands; gives the value as the field holds it, after adding to the problems.
Check = Callable[[Any, Place, list[Problem]], Any]


class _Undefined:
    """The default of a field that has none."""

    def __repr__(self) -> str:
        return "Undefined"


Undefined: Any = _Undefined()


class ValidationError(ValueError):
    """What is wrong with the fields of a record, all at once."""

    def __init__(self, title: str, problems: list[Problem]) -> None:
        self.title, self._problems = title, problems
        lines = [f"{len(problems)} validation error{'s' * (len(problems) != 1)} for {title}"]
        for problem in problems:
            lines += [".".join(map(str, problem["loc"])), f"  {problem['msg']} [{problem['type']}]"]
        super().__init__("\n".join(lines))

    def errors(self) -> list[Problem]:
        """Each with `type`, `loc`, `msg`, `input` and, for bounds, `ctx`."""
        return list(self._problems)


BOUNDS = {
    "ge": ("greater_than_equal", "greater than or equal to", lambda value, bound: value >= bound),
    "gt": ("greater_than", "greater than", lambda value, bound: value > bound),
    "le": ("less_than_equal", "less than or equal to", lambda value, bound: value <= bound),
    "lt": ("less_than", "less than", lambda value, bound: value < bound),
}


class Facts:
    """What `Field` says of a field."""

    def __init__(self, default: Any, default_factory: Any, description: str | None, **limits: Any) -> None:
        self.default, self.default_factory, self.description = default, default_factory, description
        self.limits = {name: limit for name, limit in limits.items() if limit is not None}


def Field(
    default: Any = Undefined,
    *,
    default_factory: Callable[[], Any] | None = None,
    description: str | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
) -> Any:
    """Facts of a field, for `Annotated` or as its default: bounds, lengths, a pattern, a line of documentation."""
    limits = {"ge": ge, "gt": gt, "le": le, "lt": lt, "min_length": min_length, "max_length": max_length}
    return Facts(default, default_factory, description, **limits, pattern=pattern)


class FieldInfo:
    """A field of a class of records: its annotation without `Annotated`, and what that said beside the type."""

    def __init__(self, annotation: Any, default: Any) -> None:
        self.metadata: list[Any] = []
        self.description: str | None = None
        self.default_factory: Callable[[], Any] | None = None
        self.default = Undefined
        if get_origin(annotation) is Annotated:
            annotation, *said = get_args(annotation)
            for fact in said:
                self._take(fact)
        self.annotation = annotation
        if isinstance(default, Facts):
            self._take(default)
        elif default is not Undefined:  # what the class says counts
            self.default, self.default_factory = default, None

    def _take(self, fact: Any) -> None:
        self.metadata.append(fact)
        if isinstance(fact, Facts):
            self.description = fact.description or self.description
            self.default_factory = fact.default_factory or self.default_factory
            if fact.default is not Undefined:
                self.default = fact.default

    def is_required(self) -> bool:
        return self.default is Undefined and self.default_factory is None

    def get_default(self, *, call_default_factory: bool = True) -> Any:
        if self.default_factory is not None:
            return self.default_factory() if call_default_factory else None
        return self.default


# --------------------------------------------------------------------------------------------------------- checks


def problem_of(type_: str, place: Place, message: str, value: Any, **context: Any) -> Problem:
    return {"type": type_, "loc": place, "msg": message, "input": value, **({"ctx": context} if context else {})}


def check_of(annotation: Any, metadata: list[Any]) -> Check:
    """The check of a type with what `Annotated` says of it."""
    check = _type_check(annotation)
    limits = {name: limit for fact in metadata if isinstance(fact, Facts) for name, limit in fact.limits.items()}
    return _limited(check, limits) if limits else check


def _limited(check: Check, limits: dict[str, Any]) -> Check:
    pattern = compiled.pattern(limits["pattern"]) if "pattern" in limits else None

    def limited(value: Any, place: Place, problems: list[Problem]) -> Any:
        before = len(problems)
        value = check(value, place, problems)
        if len(problems) > before:
            return value
        for name, limit in limits.items():
            if name in BOUNDS:
                type_, words, holds = BOUNDS[name]
                if not holds(value, limit):
                    said = f"Input should be {words} {limit}"
                    problems.append(problem_of(type_, place, said, value, **{name: limit}))
            elif name == "pattern":
                if pattern is not None and not pattern.search(value):
                    problems.append(problem_of("string_pattern_mismatch", place, f"it does not match {limit}", value))
            elif (len(value) < limit) if name == "min_length" else (len(value) > limit):
                least, sort = name == "min_length", "string_" if isinstance(value, str) else ""
                said = f"it should have at {'least' if least else 'most'} {limit} characters or items"
                problems.append(problem_of(f"{sort}too_{'short' if least else 'long'}", place, said, value))
        return value

    return limited


def _type_check(wanted: Any) -> Check:
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return check_of(inner[0], list(inner[1:]))
    if is_any(wanted) or wanted is object:
        return lambda value, place, problems: value
    if wanted in _SCALARS:
        return _SCALARS[wanted]
    if origin is Literal:
        return _choice(inner)
    if origin is types.UnionType:
        return _either([_type_check(option) for option in inner])
    if origin in (tuple, list, set, frozenset):
        return _series(origin, inner)
    if origin is dict or origin is Mapping:
        return _table(*inner)
    if wanted in (tuple, list, set, frozenset, dict):
        return _instance(wanted)
    if isinstance(wanted, type):
        own: Check | None = getattr(wanted, "_check", None)  # a record's
        return own or _instance(wanted)
    raise TypeError(f"a record has no fields of type {wanted!r}")


def _scalar(name: str, words: str, holds: Callable[[Any], bool], make: Callable[[Any], Any]) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> Any:
        if not holds(value):
            problems.append(problem_of(name, place, f"Input should be a valid {words}", value))
            return value
        return make(value)

    return check


def _same(value: Any) -> Any:
    return value


_SCALARS: dict[Any, Check] = {
    bool: _scalar("bool_type", "boolean", lambda v: isinstance(v, bool), _same),
    int: _scalar(
        "int_type",
        "integer",
        lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v == v // 1,
        int,
    ),
    float: _scalar("float_type", "number", lambda v: isinstance(v, int | float) and not isinstance(v, bool), float),
    str: _scalar("string_type", "string", lambda v: isinstance(v, str), _same),
    None: _scalar("none_required", "none", lambda v: v is None, _same),
    type(None): _scalar("none_required", "none", lambda v: v is None, _same),
}


def _instance(wanted: type) -> Check:
    if hasattr(wanted, "__get_pydantic_core_schema__"):
        raise TypeError(f"{wanted.__name__} is a class of pydantic's; records hold records")
    return _scalar("is_instance_of", wanted.__name__, lambda v: isinstance(v, wanted), _same)


def _choice(choices: tuple[Any, ...]) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> Any:
        for choice in choices:
            if choice == value and isinstance(value, bool) == isinstance(choice, bool):
                return choice
        listed = ", ".join(map(repr, choices))
        problems.append(problem_of("literal_error", place, f"Input should be one of {listed}", value))
        return value

    return check


def _either(options: list[Check]) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> Any:
        tried: list[list[Problem]] = []
        for option in options:
            own: list[Problem] = []
            found = option(value, place, own)
            if not own:
                return found
            tried.append(own)
        furthest = max(range(len(tried)), key=lambda n: len(tried[n][0]["loc"]))
        problems += tried[furthest]
        return value

    return check


def _series(made: type, inner: tuple[Any, ...]) -> Check:
    fixed = made is tuple and not (len(inner) == 2 and inner[1] is Ellipsis)
    checks = [_type_check(i) for i in inner if i is not Ellipsis]

    def check(value: Any, place: Place, problems: list[Problem]) -> Any:
        if not isinstance(value, list | tuple | set | frozenset):
            problems.append(
                problem_of(f"{made.__name__}_type", place, f"Input should be a valid {made.__name__}", value)
            )
            return value
        if fixed and len(value) != len(checks):
            words = f"it should have {len(checks)} items, not {len(value)}"
            problems.append(problem_of("too_short" if len(value) < len(checks) else "too_long", place, words, value))
            return value
        each = checks if fixed else checks * len(value)
        return made(c(v, (*place, n), problems) for n, (c, v) in enumerate(zip(each, value, strict=True)))

    return check


def _table(key: Any, inner: Any) -> Check:
    of_key, of_value = _type_check(key), _type_check(inner)

    def check(value: Any, place: Place, problems: list[Problem]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(problem_of("dict_type", place, "Input should be a valid dictionary", value))
            return value
        return {of_key(k, (*place, str(k)), problems): of_value(v, (*place, str(k)), problems)
                for k, v in value.items()}  # fmt: skip

    return check
