"""Records, and tuples with names, of which a start has more than a hundred.  Start from `record`.

They are what `dataclasses` and `typing.NamedTuple` make of the same classes, for a tenth of the
time: what all of them do alike is not compiled anew for each, what differs is compiled when it is
first asked for (a start makes records of one class in four), and `inspect`, which `dataclasses`
brings along, is not imported.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

from jitkernel.later import Later

__all__ = ["MISSING", "Field", "NamedTuple", "field", "fields", "record", "replace"]

T = TypeVar("T")
_FIELDS = "__dataclass_fields__"  # where `dataclasses` looks for them

MISSING: Any = type("MISSING", (), {"__slots__": ()})()


class Field:
    """A field, as `fields` tells of it."""

    __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr", "type")

    def __init__(
        self,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        *,
        compare: bool = True,
        repr: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ):
        self.name, self.type = "", ""
        self.default, self.default_factory = default, default_factory
        self.compare, self.repr, self.metadata = compare, repr, metadata or {}


if TYPE_CHECKING:
    from dataclasses import field, replace
    from typing import NamedTuple
else:
    field = Field

    def replace(one: T, /, **changes: Any) -> T:
        """The same record with other values of some fields."""
        for name in one.__match_args__:
            if name not in changes:
                changes[name] = getattr(one, name)
        return one.__class__(**changes)


def fields(of: Any) -> tuple[Field, ...]:
    """The fields of a record or of a class of them."""
    found: tuple[Field, ...] = of._fields
    return found


# -- records -----------------------------------------------------------------------------------


@overload
def record(cls: type[T]) -> type[T]: ...
@overload
def record(
    *, frozen: bool = True, eq: bool = True, slots: bool = True
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def record(cls: Any = None, *, frozen: bool = True, eq: bool = True, slots: bool = True) -> Any:
    """Make a class what `dataclass(slots=True)` makes of it; without `slots` it may have a
    `cached_property`.

    That fields of `frozen` ones are not written is for the type checker to say, not for each new
    record to see to (PEP 681).
    """
    if cls is None:
        return partial(record, frozen=frozen, eq=eq, slots=slots)
    inherited = [name for base in cls.__bases__ for name in getattr(base, "__match_args__", ())]
    own = cls.__annotations__
    body = dict(vars(cls))
    defaults = {name: body.pop(name) for name in own if name in body}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    if slots:
        body["__slots__"] = tuple([name for name in own if name not in inherited])
    body["__match_args__"] = tuple(dict.fromkeys([*inherited, *own]))
    made: Any = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    Later(made, "_fields", lambda made: _fields(made, own, defaults))
    Later(made, _FIELDS, _of_dataclass)
    if "__init__" not in body:
        Later(made, "__init__", _init)
    if eq:
        Later(made, "_compared", _compared)
        for name, method in (("__eq__", _equal), ("__hash__", _hash if frozen else None)):
            if body.get(name) is None:
                setattr(made, name, method)
    made.__replace__ = replace
    if "__repr__" not in body:
        made.__repr__ = _repr
    return made


def _fields(made: Any, own: Mapping[str, str], defaults: Mapping[str, Any]) -> tuple[Field, ...]:
    found = {each.name: each for base in made.__bases__ for each in getattr(base, "_fields", ())}
    for name, annotation in own.items():
        given = defaults.get(name, MISSING)
        each = found[name] = given if isinstance(given, Field) else Field(given)
        each.name, each.type = name, annotation
    return tuple(found.values())


def _init(made: Any) -> Any:
    """Its `__init__`, as `dataclasses` writes it."""
    known: dict[str, Any] = {}
    parameters, lines = [], []
    for each in made._fields:
        name = value = each.name
        if each.default_factory is not MISSING:
            known[f"_{name}"], known[f"_{name}_made"] = MISSING, each.default_factory
            parameters.append(f"{name}=_{name}")
            value = f"_{name}_made() if {name} is _{name} else {name}"
        elif each.default is not MISSING:
            known[f"_{name}"] = each.default
            parameters.append(f"{name}=_{name}")
        else:
            parameters.append(name)
        lines.append(f"  self.{name} = {value}\n")
    if hasattr(made, "__post_init__"):
        lines.append("  self.__post_init__()\n")
    head = f"def __init__({', '.join(['self', *parameters])}):\n"
    exec(head + ("".join(lines) or "  pass\n"), known)
    init = known["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in made._fields}
    return init


def _of_dataclass(made: Any) -> Mapping[str, Any]:
    """The fields as `dataclasses` has them, for whoever asks that."""
    import dataclasses

    same: dict[str, Any] = {"__annotations__": {each.name: each.type for each in made._fields}}
    for each in made._fields:
        told: dict[str, Any] = {}
        for name in ("default", "default_factory"):
            if (value := getattr(each, name)) is not MISSING:
                told[name] = value
        same[each.name] = dataclasses.field(
            compare=each.compare, repr=each.repr, metadata=each.metadata, kw_only=False, **told
        )
    found: Mapping[str, Any] = getattr(dataclasses.dataclass(type("Same", (), same)), _FIELDS)
    return found


def _compared(made: Any) -> Callable[[Any], Any]:
    names = [each.name for each in made._fields if each.compare]
    return staticmethod(attrgetter(*names) if names else lambda one: ())


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    said = (f"{each.name}={getattr(self, each.name)!r}" for each in self._fields if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(said)})"


# -- tuples ------------------------------------------------------------------------------------


class _Tuple(tuple[Any, ...]):
    """The base of all tuples with names."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, **changes: Any) -> Any:
        made = tuple.__new__(self.__class__, map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    __replace__ = _replace

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        said = map("{}={!r}".format, self._fields, self)
        return f"{self.__class__.__name__}({', '.join(said)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Named(type):
    """Makes a class that names `NamedTuple` as its base a tuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return type.__new__(cls, name, bases, body)
        names = tuple(body.get("__annotations__", ()))
        body["_field_defaults"] = {name: body[name] for name in names if name in body}
        body.update((name, _tuplegetter(at, "")) for at, name in enumerate(names))
        body["_fields"] = body["__match_args__"] = names
        body["__slots__"] = ()
        made = type(name, (_Tuple, *bases[1:]), body)
        Later(made, "__new__", _new)
        return made


if not TYPE_CHECKING:
    NamedTuple = _Named("NamedTuple", (), {})


def _new(made: Any) -> Any:
    """Its `__new__`, as `collections.namedtuple` writes it."""
    names, defaults = made._fields, made._field_defaults
    known = {"_new": tuple.__new__, "__builtins__": {}, "__name__": made.__module__}
    known.update((f"_{name}", value) for name, value in defaults.items())
    given = "".join(f", {name}=_{name}" if name in defaults else f", {name}" for name in names)
    new = eval(f"lambda _cls{given}: _new(_cls, ({''.join(f'{name}, ' for name in names)}))", known)
    new.__name__, new.__qualname__ = "__new__", f"{made.__qualname__}.__new__"
    new.__annotations__ = made.__annotations__
    return staticmethod(new)
