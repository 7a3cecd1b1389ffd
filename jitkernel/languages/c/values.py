"""Values of C in C: text that gives the value when it is typed.  Start from `show`; `present` makes
the value of a cell's last expression."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from jitkernel.ir.names import decode_name
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.language import Known
from jitkernel.record import record, replace
from jitkernel.values import literals
from jitkernel.values.c import declare
from jitkernel.values.datatype import DataType, plain
from jitkernel.values.ir import ir_type
from jitkernel.values.python import Pointer, bit_field
from jitkernel.values.value import TypedValue

_MANY, _FIRST, _LAST = 32, 20, 4  # elements of an array: more than so many are elided
_LINE = 60  # characters of an array of arrays that are shown in one line
_LONG = 200  # characters of a string that are shown
_DEPTH = 12  # of nested types
_ESCAPES = {
    **{code: f"\\{code:03o}" for code in (*range(32), 127)},
    **{0xDC00 + code: f"\\{code:03o}" for code in range(128, 256)},  # no UTF-8
    **{7 + at: f"\\{letter}" for at, letter in enumerate("abtnvfr")},
    92: "\\\\",
}


@record
class Memory:
    """The memory that a value points to: `read(address, size)` gives bytes, none where nothing can
    be read; `name(address)` an expression of C for it, "" where it has no name."""

    read: Callable[[int, int], bytes]
    name: Callable[[int], str]


def show(type: DataType, data: bytes, memory: Memory) -> str:
    """A value with its type: `(struct pt) {.x = 1, .y = 2.5}`."""
    return f"({declare(type.unqualified)}) {value_text(type, data, memory)}"


def present(
    value: TypedValue, type: DataType | None, known: Known, notes: Notes
) -> TypedValue | None:
    """The value at the address that `value` is; None for nothing, or where no type is known."""
    if type is None or type.bare.kind == "void":
        return None
    address = int.from_bytes(value.data, "little")
    bare, name_of = type.bare, partial(_name_of, known=known, notes=notes)
    if bare.kind == "function":
        name = name_of(address).removeprefix("&")
        return replace(value, shown=declare(type, name or "(*)"))
    data = known.read_memory(address, bare.size).ljust(bare.size, b"\0")
    text = show(type, data, Memory(known.read_memory, name_of))
    return TypedValue(ir_type(bare), data, value.layouts, plain(bare), text)


def _name_of(address: int, known: Known, notes: Notes) -> str:
    """An expression for an address; "" where it has no name."""
    found = known.describe(address)
    if not found.startswith("@"):
        return ""
    name, plus, offset = found[1:].partition("+")
    name = decode_name(name)
    if not name.isidentifier():
        return ""
    if plus:
        return f"(void *)((char *)&{name} + {offset})"
    note = notes.identifier(name)
    function = note.kind == "function" if note is not None else bool(known.signature(name))
    return name if function else f"&{name}"


def literal(value: Any) -> str:
    """A value without its type, from what Python has for it: `{.x = 1, .y = 2.5}`."""
    if isinstance(value, bytes):
        text, _, rest = value[:_LONG].partition(b"\0")
        return quoted(text) + " /* ... */" * bool(rest.strip(b"\0") or len(value) > _LONG)
    if isinstance(value, tuple):
        names = [f".{name} = " for name in getattr(value, "_fields", ())] or [""] * len(value)
        parts = list(map("".join, zip(names, map(literal, value), strict=True)))
        return f"{{{', '.join(_elided(len(parts), parts.__getitem__, ', '))}}}"
    if isinstance(value, Pointer):
        return f"{int(value):#x}" if value else "NULL"
    return str(int(value) if isinstance(value, bool) else value)


def value_text(type: DataType, data: bytes, memory: Memory, depth: int = 0) -> str:
    """A value without its type, from all of its bytes; `depth` counts the types around it."""
    bare = type.bare
    if depth > _DEPTH:
        return "{/* ... */}"
    match bare.kind:
        case "bool" | "int" | "float" | "complex":
            return _scalar(bare, data[: bare.size])
        case "enum":
            return constant_text(bare, _integer(data[: bare.size], bare.signed is True))
        case "pointer":
            return _pointer(bare, _integer(data[:8]), memory)
        case "array":
            return _array(bare, data, memory, depth)
        case "vector":
            of = (bare.element or bare).bare
            count = bare.size // max(of.size, 1)
            return _elements(replace(bare, kind="array", count=count), data, memory, depth)
        case "struct" | "union":
            return _members(bare, data, memory, depth)
        case _:
            return "0"


def _integer(data: bytes, signed: bool = False) -> int:
    return int.from_bytes(data, "little", signed=signed)


# -- members and elements --------------------------------------------------------------------------


def _members(type: DataType, data: bytes, memory: Memory, depth: int) -> str:
    members = type.members
    if type.kind == "union":  # typed back, the last one counts: the largest
        members = tuple(sorted(members, key=lambda m: m.type.bare.size))
    parts = []
    for member in members:
        if member.bits:
            if not member.name:
                continue
            value, of = bit_field(member, data[member.offset :]), member.type.bare
            text = constant_text(of, value) if of.kind == "enum" else str(value).lower()
        else:
            part = data[member.offset : member.offset + member.type.bare.size]
            text = value_text(member.type, part, memory, depth + 1)
        parts.append(f".{member.name} = {text}" if member.name else text)
    return "{" + ", ".join(parts) + "}"


def _array(type: DataType, data: bytes, memory: Memory, depth: int) -> str:
    of = (type.element or type).bare
    if -1 in type.sides:
        return "{}"
    if (of.kind, of.name) == ("int", "char"):
        text = data[: type.count].rstrip(b"\0")
        if (text or type.count > 0) and all(c >= 32 or c in (9, 10, 13) for c in text):
            if len(text) <= _LONG:
                return quoted(text)
            return f"{quoted(text[:_LONG])} /* {len(text) - _LONG} more */"
    return _elements(type, data, memory, depth)


def _elements(type: DataType, data: bytes, memory: Memory, depth: int) -> str:
    count, of = type.count, type.element or type
    size, is_rows = of.bare.size, of.kind == "array"

    def element(index: int) -> str:
        part = data[index * size : (index + 1) * size]
        return value_text(of, part, memory, depth + 1)

    parts = _elided(count, element)
    if is_rows and not depth and sum(map(len, parts)) + 2 * len(parts) > _LINE:
        return "{\n  " + ",\n  ".join(parts) + "\n}"  # each of the arrays in it in a line
    return "{" + ", ".join(parts) + "}"


def _elided(count: int, element: Callable[[int], str], behind: str = " ") -> list[str]:
    """The elements, or the first and last of many and between them how many more there are."""
    if count <= _MANY:
        return list(map(element, range(count)))
    parts = [element(index) for index in (*range(_FIRST), *range(count - _LAST, count))]
    parts[_FIRST] = f"/* {count - _FIRST - _LAST} more */{behind}{parts[_FIRST]}"
    return parts


# -- scalars ---------------------------------------------------------------------------------------


def constant_text(type: DataType, value: int) -> str:
    """An enum's value by name, or as names of flags with `|` between."""
    for name, number in type.constants:
        if number == value or (number - value) % (1 << 8 * max(type.size, 1)) == 0:
            return name
    left, names = value, []
    for name, number in type.constants:
        if number > 0 and number & (number - 1) == 0 and left & number:
            names.append(name)
            left &= ~number
    return " | ".join(names) if names and not left else str(value)


def _pointer(type: DataType, address: int, memory: Memory) -> str:
    if type.name == "nullptr_t":
        return "nullptr"
    if not address:
        return "NULL"
    of = type.element.bare if type.element is not None else type
    if (of.kind, of.name) == ("int", "char"):
        text = memory.read(address, _LONG + 1)
        if text:
            end = text.find(b"\0")
            return quoted(text[:end]) if end >= 0 else quoted(text[:_LONG]) + " /* ... */"
    return memory.name(address) or f"{address:#x}"


def quoted(data: bytes, quote: str = '"') -> str:
    text = data.decode("utf-8", "surrogateescape").translate(_ESCAPES)
    return f"{quote}{text.replace(quote, chr(92) + quote)}{quote}"


def _scalar(type: DataType, data: bytes) -> str:
    match type.kind:
        case "bool":
            return "true" if data[0] else "false"
        case "float":
            return _floating(type, data)
        case "complex":
            half = len(data) // 2
            real, imaginary = _floating(type, data[:half]), _floating(type, data[half:])
            sign = "-" if imaginary.startswith("-") else "+"
            suffix = "f" if type.name == "float _Complex" else ""  # else the sum is of a wider type
            return f"{real}{suffix} {sign} {imaginary.removeprefix('-')}{suffix}i"
    if type.name == "char":
        return quoted(data, "'") if data[0] < 128 else f"'\\{data[0]:03o}'"
    value = _integer(data) & (1 << type.bits) - 1  # what pads a _BitInt may be anything
    if type.signed and value >> type.bits - 1:
        value -= 1 << type.bits
    return str(value) if -(1 << 63) <= value < 1 << 64 else f"{value}wb"  # C23 6.4.4.2


def _floating(type: DataType, data: bytes) -> str:
    """The shortest decimal that gives the same number, in the manner of Python's repr."""
    form = type.form
    if form is None or form.name == "fp128":
        return f"0x{data[::-1].hex()}"
    bits = _integer(data) & (1 << form.width) - 1
    wide = form.name == "x86_fp80"
    sign = "-" if bits >> form.width - 1 else ""
    found = literals.decimal_of(bits, form)
    if found is None:  # infinities and what is no number, by the macros of <math.h>
        is_infinite = bits & (1 << form.width - 1) - 1 == form.infinity
        return f"{sign * (wide or is_infinite)}{'INFINITY' if is_infinite else 'NAN'}"
    if not wide:
        return sign + repr(float(found))
    text = f"{found:f}" if -5 < found.adjusted() < 17 else f"{found:e}"
    return f"{sign}{text if '.' in text or 'e' in text else text + '.0'}L"
