"""Inputs of a function, at boundaries and at random, smaller ones that may fail as well, and their
bytes in memory.

Start from `kinds_of`, `chosen` and `smaller`.  The same seed chooses the same everywhere.  What a
pointer leads to lies where C and LLVM put it on x86-64: each field at a multiple of its own size,
the whole as long as its widest field asks for (psABI 3.1.2).
"""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from jitkernel.errors import UsageError
from jitkernel.ir.types import FloatType, FunctionType, IntType, PointerType, Type
from jitkernel.regex import regex
from jitkernel.values.python import LETTERS

MOST = 32  # elements of an array, characters of a text
_COMBINATIONS = 60  # of boundaries, that are all tried
# The first and last of each class of ASCII, what lies beside them, and two bytes above all.
_BESIDE = tuple("azAZ09`{@[/: é")
_LETTERS = "abcdefghxyz ABCXYZ 0123456789 ,.-" + "".join(_BESIDE)

_ELEMENT = r"(?P<element>i\d+|float|double)"
_RANGE = r"\s*(?:(?P<low>-?\d+)\s*\.\.\s*(?P<high>-?\d+))?$"
_KIND = regex(rf"(?P<sorted>sorted\s+)?(?P<name>any|text|length|{_ELEMENT}\[\])?{_RANGE}")
_STRUCT = regex(r"(?P<sorted>sorted\s+)?\{(?P<fields>[^{}]*)\}\s*(?P<many>\[\])?$")
_FIELD = regex(_ELEMENT + _RANGE)
_PARTS = regex(r",(?![^{]*\})")  # a comma that stands in no braces


@dataclass(frozen=True, slots=True)
class Kind:
    """The way one argument is drawn.

    `name` is `int`, `float`, `text` (a C string), `struct` (a pointer to one), `array` or `length`
    (the number of elements of the array before it).  `bits` are the width of a number, `low` and
    `high` its least and greatest value; `fields` are those of a struct, or the one kind of an
    array's elements.  `unsigned` says that integers are told as unsigned ones.
    """

    name: str
    bits: int = 0
    low: int | None = None
    high: int | None = None
    sorted: bool = False
    fields: tuple[Kind, ...] = ()
    unsigned: bool = False

    def as_unsigned(self) -> Kind:
        """The same, told unsigned, its fields too."""
        return replace(self, unsigned=True, fields=tuple(f.as_unsigned() for f in self.fields))

    @property
    def in_memory(self) -> bool:
        """True if the argument is a pointer to what is drawn."""
        return self.name in ("array", "text", "struct")

    @property
    def element(self) -> Kind:
        """The kind of an array's elements."""
        return self.fields[0]

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer, both included."""
        low = -(1 << self.bits - 1) if self.low is None else self.low
        high = (1 << self.bits - 1) - 1 if self.high is None else self.high
        return low, high

    def has(self, number: float) -> bool:
        """True if a number is between the least and the greatest."""
        if self.name == "int":
            return self.bounds[0] <= number <= self.bounds[1]
        return (self.low is None or self.low <= number) and (
            self.high is None or number <= self.high
        )


def kinds_of(text: str, signature: FunctionType) -> tuple[Kind, ...]:
    """Parse the inputs: `text` has a word for each argument, with commas between, or is empty.

    `any` (any value of an integer or floating type), `0..9`, `text`, `i32[]`, `sorted i32[]`,
    `i8[] 0..9`, `{i32, double}`, `{i32 0..9, i64}[]`, `length`.  Raises UsageError.
    """
    words = [word.strip() for word in _PARTS.split(text)] if text.strip() else []
    types = signature.parameters
    if words and len(words) != len(types):
        raise UsageError(f"inputs: {len(words)} are described, {signature} takes {len(types)}")
    kinds = [_kind(words[i] if words else "any", type) for i, type in enumerate(types)]
    for before, kind in zip([None, *kinds], kinds, strict=False):
        if kind.name == "length" and (before is None or before.name != "array"):
            raise UsageError("inputs: a length stands behind the array that it counts")
    return tuple(kinds)


def _kind(word: str, type: Type) -> Kind:
    braces = _STRUCT.match(word)
    if braces is not None and isinstance(type, PointerType):
        fields = tuple(_field(part.strip()) for part in braces["fields"].split(","))
        found = Kind("struct", fields=fields)
        if braces["many"]:
            return Kind("array", sorted=bool(braces["sorted"]), fields=(found,))
        return found
    match = _KIND.match(word)
    if match is None:
        raise UsageError(f"inputs: {word!r} is none of any, 0..9, text, i32[], length")
    name = match["name"] or "any"
    if isinstance(type, PointerType):
        if name == "text":
            return Kind("text")
        if match["element"]:
            return Kind("array", sorted=bool(match["sorted"]), fields=(_number(match),))
        raise UsageError("inputs: say what a ptr leads to: text, i32[], double[], {i32, i64} ...")
    if isinstance(type, IntType) and name in ("any", "length"):
        return Kind("length" if name == "length" else "int", type.bits, *_bounds(match))
    if isinstance(type, FloatType) and name == "any":
        return Kind("float", 32 if str(type) == "float" else 64, *_bounds(match))
    raise UsageError(f"inputs: {word!r} does not fit an argument of type {type}")


def _bounds(match: re.Match[str]) -> tuple[int | None, int | None]:
    low, high = match["low"], match["high"]
    return (None, None) if low is None else (int(low), int(high))


def _number(match: re.Match[str]) -> Kind:
    """A number in memory."""
    element = match["element"]
    bits = {"float": 32, "double": 64}.get(element) or int(element[1:])
    if bits not in (8, 16, 32, 64):
        raise UsageError(f"inputs: elements of {bits} bits are not bytes in memory")
    return Kind("int" if element[0] == "i" else "float", bits, *_bounds(match))


def _field(word: str) -> Kind:
    match = _FIELD.match(word)
    if match is None:
        raise UsageError(f"inputs: {word!r} is no field: i32, i64 0..9, float, double")
    return _number(match)


def chosen(kinds: tuple[Kind, ...], count: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """So many inputs, each a value for each argument that is not a length: up to half of them at
    boundaries, the others drawn."""
    free, chance = [kind for kind in kinds if kind.name != "length"], random.Random(seed)
    edges = list(islice(_at_edges(free, chance), count // 2))
    yield from edges
    for _ in range(count - len(edges)):
        yield tuple(_draw(kind, chance) for kind in free)


def _at_edges(kinds: list[Kind], chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """All combinations of boundaries where those are few; else all arguments at theirs, and each
    at each of its own while the others are drawn."""
    edges = [_edges(kind) for kind in kinds]
    if math.prod(map(len, edges)) <= _COMBINATIONS:
        yield from product(*edges)
        return
    for turn in range(max(map(len, edges))):
        yield tuple(own[turn % len(own)] for own in edges)
    for index, own in enumerate(edges):
        for value in own:
            drawn = [_draw(kind, chance) for kind in kinds]
            yield (*drawn[:index], value, *drawn[index + 1 :])


def _edges(kind: Kind) -> list[Any]:
    """The boundaries of a kind, the simplest first."""
    match kind.name:
        case "int" if kind.bits == 1:
            return [False, True]
        case "int":
            low, high = kind.bounds
            found = dict.fromkeys((0, 1, -1, low, low + 1, high - 1, high))
            return list(filter(kind.has, found))
        case "float":
            ends = (end for end in (kind.low, kind.high) if end is not None)
            return list(filter(kind.has, dict.fromkeys(map(float, (0, 1, -1, 0.5, -0.5, *ends)))))
        case "text":
            return ["", *_BESIDE, "".join(_BESIDE)]
        case "struct":
            parts = [_edges(field) for field in kind.fields]
            turns = range(max(map(len, parts)))
            return [tuple(own[turn % len(own)] for own in parts) for turn in turns]
        case _:
            single: list[Any] = _edges(kind.element)
            lists = [[], *([value] for value in single), single, single[::-1]]
            lists += [single[-1:] * MOST, (single * MOST)[:MOST]]
            return [sorted(values) if kind.sorted else values for values in lists]


def _draw(kind: Kind, chance: random.Random) -> Any:
    match kind.name:
        case "int":
            return chance.random() < 0.5 if kind.bits == 1 else _integer(kind, chance)
        case "float":
            if kind.low is not None and kind.high is not None:
                return _rounded(chance.uniform(kind.low, kind.high), kind.bits)
            return _rounded(chance.choice((-1, 1)) * 10 ** chance.uniform(-3, 3), kind.bits)
        case "text":
            return "".join(chance.choice(_LETTERS) for _ in range(_length(chance)))
        case "struct":
            return tuple(_draw(field, chance) for field in kind.fields)
        case _:
            drawn = [_draw(kind.element, chance) for _ in range(_length(chance))]
            return sorted(drawn) if kind.sorted else drawn


def _length(chance: random.Random) -> int:
    return chance.randint(0, chance.choice((2, 8, MOST)))


def _integer(kind: Kind, chance: random.Random) -> int:
    """Small ones, powers of two and of ten and their neighbours, and any, in equal parts."""
    low, high = kind.bounds
    for _ in range(20):
        match chance.randrange(4):
            case 0:
                value = chance.randint(-16, 16)
            case 1:
                value = (1 << chance.randrange(kind.bits)) + chance.randint(-1, 1)
                value = value if value <= high else value - (1 << kind.bits)
            case 2:
                value = 10 ** chance.randrange(len(str(high))) + chance.randint(-1, 1)
            case _:
                value = chance.randint(low, high)
        if low <= value <= high:
            return value
    return chance.randint(low, high)


def _rounded(value: float, bits: int) -> float:
    """A value that the type holds exactly."""
    value = round(value, 3)
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if bits == 32 else value


def smaller(kinds: tuple[Kind, ...], values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Inputs that are simpler than `values`, each in one argument, the simplest first."""
    free = [kind for kind in kinds if kind.name != "length"]
    for index, (kind, value) in enumerate(zip(free, values, strict=True)):
        for simpler in _smaller(kind, value):
            yield (*values[:index], simpler, *values[index + 1 :])


def _smaller(kind: Kind, value: Any) -> Iterator[Any]:
    match kind.name:
        case "int" if kind.bits == 1:
            if value:
                yield False
        case "int":
            positive = [-value] if value < 0 else []
            # Half the way to 0, a quarter, ... one step: finds a boundary as a bisection does.
            steps = [value - (abs(value) >> k) * (1 if value > 0 else -1) for k in range(kind.bits)]
            for simpler in dict.fromkeys((0, *positive, *steps)):
                if simpler != value and kind.has(simpler) and abs(simpler) <= abs(value):
                    yield simpler
        case "float":
            for simpler in (0.0, 1.0, float(int(value))):
                if abs(simpler) < abs(value) and kind.has(simpler):
                    yield simpler
        case "struct":
            for i, (field, part) in enumerate(zip(kind.fields, value, strict=True)):
                for simpler in _smaller(field, part):  # a list in what comes from a file
                    yield type(value)([*value[:i], simpler, *value[i + 1 :]])
        case _:
            half = len(value) // 2
            yield from (value[:half], value[half:]) if half else ()
            yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
            for i, element in enumerate(value if kind.name == "array" else ()):
                for simpler in _smaller(kind.element, element):
                    changed = [*value[:i], simpler, *value[i + 1 :]]
                    if not kind.sorted or changed == sorted(changed):
                        yield changed


def filled(kinds: tuple[Kind, ...], values: tuple[Any, ...]) -> Iterator[tuple[Kind, Any]]:
    """Each argument's kind and value; a length is that of the value before it."""
    free = iter(values)
    last: Any = ()
    for kind in kinds:
        last = len(last) if kind.name == "length" else next(free)
        yield kind, last


def written_call(called: str, kinds: tuple[Kind, ...], values: tuple[Any, ...]) -> str:
    """The call as it reads best: `@sum([3, 1], 2)`."""
    return f"{called}({', '.join(told(*each) for each in filled(kinds, values))})"


def told(kind: Kind, value: Any) -> str:
    """A drawn value, or one that a function left, as it reads best: `{3, 4}`, `[1, 2]`, `"ab"`."""
    if isinstance(value, bool):
        return str(value).lower()  # as i1 values are typed
    if isinstance(value, str):
        return f'"{value}"'
    if kind.name == "struct":
        parts = (told(field, part) for field, part in zip(kind.fields, value, strict=True))
        return "{" + ", ".join(parts) + "}"
    if kind.name == "array":
        return "[" + ", ".join(told(kind.element, part) for part in value) + "]"
    if kind.unsigned and isinstance(value, int):
        return str(value % (1 << kind.bits))
    return str(value)


# -- in memory -----------------------------------------------------------------------------------


def encode(kind: Kind, value: Any) -> bytes:
    """The bytes of an argument's memory; text with its NUL."""
    if kind.name == "text":
        return str(value).encode() + b"\0"
    if kind.name == "struct":
        return _struct(kind).pack(*value)
    form, structs = _struct(kind.element), kind.element.fields
    return b"".join(form.pack(*element) if structs else form.pack(element) for element in value)


def decode(kind: Kind, data: bytes) -> Any:
    """The value that `data` holds: a text, a struct as a tuple, a list of elements."""
    if kind.name == "text":
        return data.partition(b"\0")[0].decode("utf-8", "replace")
    if kind.name == "struct":
        return _struct(kind).unpack(data)
    rows = list(_struct(kind.element).iter_unpack(data))
    return rows if kind.element.fields else [value for (value,) in rows]


def capacity(kind: Kind) -> int:
    """The most bytes that a drawn value takes."""
    if kind.name == "text":
        return 4 * MOST + 1
    return _struct(kind).size if kind.name == "struct" else MOST * _struct(kind.element).size


def _struct(kind: Kind) -> struct.Struct:
    """The format of a number, or of a struct as C lays it out, to the padding at its end."""
    letters = [LETTERS[f"{field.name[0]}{field.bits // 8}"] for field in kind.fields or (kind,)]
    return struct.Struct(f"@{''.join(letters)}0{max(letters, key=struct.calcsize)}")
