"""Records: frozen values with named and checked fields, of which components, programs and plans are made.

    class Kl(Record):
        coefficient: Annotated[float, Field(ge=0, description="weight of the term")] = 0.0

        @model_validator(mode="after")
        def _rule(self) -> Self: ...     # raises ValueError, or Refused with a code

What there is of pydantic's interface has pydantic's names and behaviour, less its conversions: a text is no
number here. Pydantic itself is not used because every command would wait for it: its import and the classes of the
catalog took two thirds of `rlc check`. A class of records costs nothing until it is first used; then its annotations
are read, once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FunctionType

from rlspec.compiler.fields import (
    Check,
    Facts,
    Field,
    FieldInfo,
    Place,
    Problem,
    Undefined,
    ValidationError,
    check_of,
    problem_of,
)
from rlspec.dsl import compiled
from rlspec.dsl.annotations import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, dataclass_transform, get_origin

__all__ = ["Field", "FieldInfo", "Record", "Refused", "Undefined", "ValidationError", "create_model", "model_validator"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound="Record")
_LEAVES = frozenset({str, int, float, bool, type(None)})


class Refused(Exception):
    """Raised by a rule that has a diagnostic code of its own; `{name}` in the message is taken from the context."""

    def __init__(self, code: str, message: str, context: Mapping[str, Any]) -> None:
        self.code, self.context = code, dict(context)
        super().__init__(message.format(**context))


def model_validator(*, mode: Literal["after"]) -> Callable[[F], F]:
    """A rule over several fields: a method that is called when each of them is right. It raises ValueError, or Refused
    with a code."""

    def marked(method: F) -> F:
        method.is_rule = mode == "after"  # type: ignore[attr-defined]
        return method

    return marked


class _Fields:
    """`model_fields` of a class: its fields by name, those of its bases first."""

    def __get__(self, _: object, owner: type[Record]) -> Mapping[str, FieldInfo]:
        return owner._read()


class _Read(Mapping[str, FieldInfo]):
    """A class of records: its fields, each understood when somebody asks for it. A spec writes a third of the fields of
    the components that it names, and what is left out needs no more than its default."""

    def __init__(self, owner: type[Record]) -> None:
        self.owner = owner
        self.rules: dict[str, Callable[[Any], Any]] = {}
        self.written: dict[str, tuple[Any, type, Any]] = {}  # annotation, whose it is, and the default in the class
        self._known: dict[str, FieldInfo] = {}
        self.checks: dict[str, Check] = {}
        for base in reversed(owner.__mro__):
            if base is Record or not issubclass(base, Record):
                continue
            own = vars(base)
            for name, annotation in base.__annotations__.items():
                if not name.startswith("_") and not _of_class(annotation):
                    self.written[name] = annotation, base, own.get(name, Undefined)
            for name, method in own.items():
                if type(method) is FunctionType:
                    if hasattr(method, "is_rule"):
                        self.rules[name] = method
                elif type(method).__module__.startswith("pydantic"):
                    raise TypeError(f"{base.__name__}.{name}: rules of records are of rlspec.compiler.records")

    def __getitem__(self, name: str) -> FieldInfo:
        info = self._known.get(name)
        if info is None:
            annotation, base, default = self.written[name]
            info = FieldInfo(_evaluated(annotation, base), default)
            if strange := [m for m in info.metadata if type(m).__module__.startswith(("pydantic", "annotated_types"))]:
                raise TypeError(
                    f"{self.owner.__name__}.{name}: {strange[0]!r} is pydantic's; import Field from records"
                )
            self._known[name] = info
        return info

    def __iter__(self) -> Iterator[str]:
        return iter(self.written)

    def __len__(self) -> int:
        return len(self.written)

    def __contains__(self, name: object) -> bool:
        return name in self.written

    def check(self, name: str) -> Check:
        """The check of a field."""
        check = self.checks.get(name)
        if check is None:
            info = self[name]
            check = self.checks[name] = check_of(info.annotation, info.metadata)
        return check

    def default(self, name: str) -> Any:
        """The default of a field; Undefined where there is none."""
        default = self.written[name][2]
        if default is Undefined or isinstance(default, Facts):
            return self[name].get_default()
        return default


def _of_class(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _evaluated(annotation: Any, owner: type) -> Any:
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(owner.__module__)
    made = compiled.code(annotation, "<annotation>", "eval")
    return eval(made, vars(module) if module else {}, _scope(owner))


@cache
def _scope(owner: type) -> dict[str, Any]:
    """Names that the class body itself defines (`type` as a field's name hides nothing)."""
    return {owner.__name__: owner} | {name: value for name, value in vars(owner).items() if isinstance(value, type)}


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Record:
    """A frozen value with checked fields. Unknown fields are errors; equal fields make equal records.

    Raises:
        ValidationError: on construction, with everything that is wrong.
    """

    __slots__ = ("__dict__", "model_fields_set")
    model_fields = _Fields()
    if TYPE_CHECKING:

        @property
        def model_fields_set(self) -> set[str]:
            """The fields that were given; the others have their defaults."""

    def __init__(self, **values: Any) -> None:
        problems: list[Problem] = []
        self._fill(values, (), problems)
        if problems:
            raise ValidationError(type(self).__name__, problems)

    @classmethod
    def _read(cls) -> _Read:
        found: _Read | None = cls.__dict__.get("_understood")
        if found is None:
            found = _Read(cls)
            type.__setattr__(cls, "_understood", found)
        return found

    def _fill(self, values: Mapping[str, Any], place: Place, problems: list[Problem]) -> None:
        read, before = self._read(), len(problems)
        object.__setattr__(self, "model_fields_set", values.keys() & read.written.keys())
        own = self.__dict__
        checks, written = read.checks, read.written
        for name in written:
            if name in values:
                check = checks.get(name) or read.check(name)
                own[name] = check(values[name], (*place, name), problems)
                continue
            default = written[name][2]
            if default is Undefined or isinstance(default, Facts):
                default = read.default(name)
            if default is Undefined:
                problems.append(problem_of("missing", (*place, name), "Field required", values))
            else:
                own[name] = default
        for name in values:
            if name not in written:
                said = "Extra inputs are not permitted"
                problems.append(problem_of("extra_forbidden", (*place, name), said, values[name]))
        if len(problems) > before:
            return
        for rule in read.rules.values():
            try:
                rule(self)
            except Refused as refusal:
                problems.append(problem_of(refusal.code, place, str(refusal), values, **refusal.context))
            except (ValueError, AssertionError) as error:
                problems.append(problem_of("value_error", place, f"Value error, {error}", values, error=error))

    @classmethod
    def _check(cls, value: Any, place: Place, problems: list[Problem]) -> Any:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            problems.append(problem_of("model_type", place, f"Input should be a valid {cls.__name__}", value))
            return value
        made = object.__new__(cls)
        made._fill(value, place, problems)
        return made

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """A record of values that are known to be right: every field, as the record holds it. Nothing is checked."""
        return _made(cls, values, set(values))

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """A record of a mapping.

        Raises:
            ValidationError: with everything that is wrong.
        """
        problems: list[Problem] = []
        made: Self = cls._check(value, (), problems)
        if problems:
            raise ValidationError(cls.__name__, problems)
        return made

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """A record of a JSON object; raises as `model_validate`."""
        try:
            import json

            value = json.loads(text)
        except ValueError as error:
            raise ValidationError(
                cls.__name__, [problem_of("json_invalid", (), f"Invalid JSON: {error}", text)]
            ) from error
        return cls.model_validate(value)

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        include: set[str] | None = None,
        exclude: set[str] | None = None,
        exclude_defaults: bool = False,
    ) -> dict[str, Any]:
        """The fields as a dictionary, records inside as dictionaries too; for JSON, tuples and sets as lists."""
        names = [n for n in self.__dict__ if (include is None or n in include) and n not in (exclude or ())]
        if exclude_defaults:
            read = self._read()
            names = [n for n in names if (d := read.default(n)) is Undefined or self.__dict__[n] != d]
        return {name: _plain(self.__dict__[name], mode == "json", exclude_defaults) for name in names}

    def model_dump_json(self) -> str:
        """The fields as JSON."""
        return _text(self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """The same with other values, which are not checked."""
        return _made(type(self), {**self.__dict__, **(update or {})}, self.model_fields_set | (update or {}).keys())

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.__dict__, self.model_fields_set)

    def __setattr__(self, name: str, value: Any) -> None:
        problem = problem_of("frozen_instance", (name,), "Instance is frozen", value)
        raise ValidationError(type(self).__name__, [problem])

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.__dict__.values())))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.__dict__.items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _made(cls: type[R], values: dict[str, Any], given: set[str]) -> R:
    made = object.__new__(cls)
    object.__setattr__(made, "model_fields_set", given)
    made.__dict__.update(values)
    return made


def _plain(value: Any, as_json: bool, sparse: bool) -> Any:
    """A value with the records in it as dictionaries; `sparse` leaves out what is as the defaults say."""
    if isinstance(value, Record):
        if sparse:
            return value.model_dump(mode="json" if as_json else "python", exclude_defaults=True)
        value = value.__dict__
    if isinstance(value, dict):  # most of what there is are leaves, which need no call
        return {k: v if type(v) in _LEAVES else _plain(v, as_json, sparse) for k, v in value.items()}
    if isinstance(value, tuple | list):
        made = [v if type(v) in _LEAVES else _plain(v, as_json, sparse) for v in value]
        return made if as_json or isinstance(value, list) else tuple(made)
    if as_json and isinstance(value, set | frozenset):
        return sorted(value)
    return value


def _text(value: Any) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=for_json)


def for_json(value: Any) -> Any:
    """What `json.dumps` is to write for a value that it does not know (its `default`)."""
    if isinstance(value, Record):
        return value.__dict__
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{value!r} has no form in JSON")


def create_model(name: str, /, *, __base__: type[Record] = Record, __doc__: str | None = None, **fields: Any) -> Any:
    """A class of records made while the program runs: each field a pair of annotation and default (`...`: none)."""
    annotations = {field: pair[0] for field, pair in fields.items()}
    defaults = {field: pair[1] for field, pair in fields.items() if pair[1] is not ...}
    body = {"__annotations__": annotations, "__doc__": __doc__, "__module__": __base__.__module__, **defaults}
    return type(name, (__base__,), body)
