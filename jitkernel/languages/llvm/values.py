"""Values as they stand in memory: bytes with a type, read and written as IR text and as Python.

A value's bytes are all there is; what they mean comes from a `Layout`, which says where LLVM puts
the parts of a type.  Text can be typed back: `i32 49`, `%pt { i32 1, i32 2 }`.
Start from `TypedValue`; `conversion.from_python` makes them of Python values.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from mmap import PAGESIZE
from typing import Any

from jitkernel.compiler.layout import Layout
from jitkernel.errors import UsageError
from jitkernel.ir.names import escaped
from jitkernel.ir.types import (
    FloatType,
    IntType,
    PointerType,
    StructType,
    Type,
    VoidType,
    parse_type,
)
from jitkernel.languages.llvm import literals

__all__ = [
    "UNPACK",
    "Describe",
    "Layouts",
    "Pointer",
    "TypedValue",
    "element_count",
    "element_type",
    "encode_int",
    "pack",
    "plain_layout",
    "value_html",
    "scalar_layout",
    "void",
]

Layouts = Callable[[Type], Layout]
# From an address to what it is called: `@g+4`, `0x7f.. (heap)`.
Describe = Callable[[int], str]

# More elements than this are elided: the first FIRST, the last LAST, and how many lie between.
MANY, FIRST, LAST = 64, 6, 2
MANY_CHARACTERS = 1024
_PLAIN = 64  # members of a struct that is laid out here
FEW_ZEROS = 8  # at the end of a string, or as a whole array, are written out


class Pointer(int):
    """An address as a Python int; `text()` is what it points to where that is text."""

    _read: Callable[[int, int], bytes] | None = None  # bytes of the program that it is of

    @classmethod
    def of(cls, address: int, layouts: Layouts | None) -> Pointer:
        """An address in a program's memory."""
        made = cls(address)
        made._read = getattr(layouts, "read", None)
        return made

    def text(self, most: int = 1 << 24) -> str:
        """The text there, up to its NUL, as UTF-8; bytes that are none are surrogates (PEP 383).

        Raises UsageError where nothing can be read, and where no NUL is within `most` bytes.
        """
        if self._read is None:
            raise UsageError(f"{self!r} is of no program that this process knows")
        found = bytearray()
        while len(found) < most:
            at = self + len(found)
            piece = self._read(at, min(-at % PAGESIZE or PAGESIZE, most - len(found)))
            if not piece:
                break
            text, nul, _ = piece.partition(b"\0")
            found += text
            if nul:
                return found.decode("utf-8", "surrogateescape")
        where = f"within {most} bytes" if len(found) >= most else "in memory that can be read"
        raise UsageError(f"no text is at {self!r}: there is no NUL {where}")

    def __reduce__(self) -> tuple[type[Pointer], tuple[int]]:
        """Elsewhere it is a number."""
        return Pointer, (int(self),)

    def __repr__(self) -> str:
        return f"Pointer(0x{self:x})" if self else "Pointer(null)"

    __str__ = __repr__


@lru_cache(maxsize=256)
def scalar_layout(type: Type) -> Layout | None:
    """The layout of a type whose place in memory is the same wherever we run: integers of 8, 16, 32
    and 64 bits, float, double, and pointers.  None for others; LLVM is asked for those."""
    match type:
        case IntType(bits) if bits in (8, 16, 32, 64):
            size, kind, width = bits // 8, "int", bits
        case IntType(1):
            size, kind, width = 1, "int", 1
        case FloatType("float" | "double" as name):
            width = 32 if name == "float" else 64
            size, kind = width // 8, "float"
        case PointerType(0):
            size, kind, width = 8, "pointer", 64
        case _:
            return None
    text = str(type)
    return Layout(text, size, size, kind, width, scalars=(((), text, 0),))


def plain_layout(type: Type) -> Layout | None:
    """The same, and of a struct of these (System V psABI 3.1.2, Aggregates and Unions)."""
    if not isinstance(type, StructType) or type.packed or not 0 < len(type.members) <= _PLAIN:
        return scalar_layout(type)
    end, align = 0, 1
    offsets: list[int] = []
    for member in type.members:
        layout = scalar_layout(member)
        if layout is None:
            return None
        offsets.append(end + -end % layout.align)
        end, align = offsets[-1] + layout.size, max(align, layout.align)
    texts = tuple(map(str, type.members))
    scalars = tuple(((i,), text, offsets[i]) for i, text in enumerate(texts))
    return Layout(
        str(type), end + -end % align, align, "struct", 0, texts, tuple(offsets), scalars=scalars
    )


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TypedValue:
    """A value: its type and its bytes, `layouts(type).size` of them (none for void).

    Values outlive the cells that gave them, so `layouts` keeps nothing of a cell or its run.
    """

    type: Type
    data: bytes
    layouts: Layouts = field(repr=False, compare=False)

    @property
    def is_void(self) -> bool:
        return isinstance(self.type, VoidType)

    @property
    def python(self) -> Any:
        """bool (i1), int (signed), float, Pointer, or a tuple of such; None for void."""
        return None if self.is_void else _python(self.type, memoryview(self.data), self.layouts)

    def text(self, describe: Describe | None = None) -> str:
        """IR text, with the type; empty for void."""
        return "" if self.is_void else f"{self.type} {self.value_text(describe)}"

    def value_text(self, describe: Describe | None = None) -> str:
        """IR text without the type in front."""
        return _Writer(self.layouts, describe, False).value(self.type, memoryview(self.data))

    def wide_text(self, describe: Describe | None = None) -> str:
        """As `text`; negative integers with their unsigned hex beside them."""
        if self.is_void:
            return ""
        value = _Writer(self.layouts, describe, True).value(self.type, memoryview(self.data))
        return f"{self.type} {value}"


def value_html(text: str, result: bool = True) -> str:
    """HTML of a value, of the size and with the margins that JupyterLab gives plain text above and
    below: that of a cell's result stands lower than that of other values."""
    top = "6px" if result else "0"
    style = f"margin:0;padding:{top} 0 0 0.6em;font-size:0.93em"
    return f'<pre style="{style}">{html.escape(text)}</pre>'


def void(layouts: Layouts) -> TypedValue:
    """The value of a call that returns nothing."""
    return TypedValue(VoidType(), b"", layouts)


def encode_int(value: int, bits: int, size: int) -> bytes:
    """A signed or unsigned number in two's complement, the padding zero."""
    return (value & (1 << bits) - 1).to_bytes(size, "little")


def _signed(raw: int, bits: int) -> int:
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> bits - 1 else raw


def read_int(data: memoryview, bits: int) -> int:
    """The unsigned number in the first `bits` bits."""
    return int.from_bytes(data[: (bits + 7) // 8], "little") & (1 << bits) - 1


UNPACK = {"i8": "b", "i16": "h", "i32": "i", "i64": "q", "float": "f", "double": "d"}


def _python(type: Type, data: memoryview, layouts: Layouts) -> Any:
    layout = layouts(type)
    match layout.kind:
        case "int":
            raw = read_int(data, layout.bits)
            return bool(raw) if layout.bits == 1 else _signed(raw, layout.bits)
        case "float":
            raw = read_int(data, layout.bits)
            form = literals.FORMATS.get(str(type))
            return literals.to_double(raw, form) if form else raw
        case "pointer":
            return Pointer.of(read_int(data, layout.size * 8), layouts)
    count = element_count(layout)
    code = "" if layout.packed or not count else UNPACK.get(layout.elements[0])
    if code and layout.kind != "struct" and layouts(element_type(layout, 0)).size == layout.stride:
        part = data[: count * layout.stride]
        return tuple(part.cast(code))  # type: ignore[call-overload]
    return tuple(
        [_python(element_type(layout, i), _part(layout, data, i), layouts) for i in range(count)]
    )


class _Writer:
    """Writes the parts of a value; `wide` adds the unsigned hex of negative integers."""

    def __init__(self, layouts: Layouts, describe: Describe | None, wide: bool):
        self.layouts, self.describe, self.wide = layouts, describe, wide

    def value(self, type: Type, data: memoryview) -> str:
        layout = self.layouts(type)
        match layout.kind:
            case "int":
                return self.integer(read_int(data, layout.bits), layout.bits)
            case "float":
                bits = read_int(data, layout.bits)
                if str(type) == "ppc_fp128":
                    return f"0xM{bits:032X}"
                form = literals.FORMATS[str(type)]
                meant = literals.remark(bits, form)  # what is not finite has only a hex form
                return literals.shortest(bits, form) + (f" ({meant})" if meant else "")
            case "pointer":
                return self.pointer(read_int(data, layout.size * 8))
            case "struct":
                inside = self.elements(layout, data)
                inside = f"{{ {inside} }}" if inside else "{}"
                return f"<{inside}>" if self.is_packed(type, layout) else inside
            case "vector":
                return f"<{self.elements(layout, data)}>"
        if layout.count > FEW_ZEROS and not bytes(data[: layout.size]).strip(b"\0"):
            return "zeroinitializer"
        text = self.string(bytes(data[: layout.count])) if layout.elements[0] == "i8" else ""
        return text or f"[{self.elements(layout, data)}]"

    def integer(self, raw: int, bits: int) -> str:
        if bits == 1:
            return "true" if raw else "false"
        value = _signed(raw, bits)
        if bits > 8192:  # Python refuses to write more than 4300 decimal digits
            return f"0x{raw:x}"
        if self.wide and value < 0:
            return f"{value} (0x{raw:0{(bits + 3) // 4}x})"
        return str(value)

    def pointer(self, address: int) -> str:
        if not address:
            return "null"
        return self.describe(address) if self.describe else f"0x{address:x}"

    def is_packed(self, type: Type, layout: Layout) -> bool:
        if isinstance(type, StructType):
            return type.packed
        at, align = 0, 1
        for text, offset in zip(layout.elements, layout.offsets, strict=True):
            member = self.layouts(parse_type(text))
            at = -(-at // member.align) * member.align
            if at != offset:
                return True
            at, align = at + member.size, max(align, member.align)
        return align != layout.align

    def elements(self, layout: Layout, data: memoryview) -> str:
        """All of them, or the first and last with a note between."""
        count = element_count(layout)
        shown = range(count) if count <= MANY else [*range(FIRST), *range(count - LAST, count)]
        parts = [self.element(layout, data, i) for i in shown]
        if count > MANY:
            parts.insert(FIRST, f"... {count - FIRST - LAST} more ...")
        return ", ".join(parts)

    def element(self, layout: Layout, data: memoryview, index: int) -> str:
        type = element_type(layout, index)
        return f"{type} {self.value(type, _part(layout, data, index))}"

    def string(self, data: bytes) -> str:
        """Bytes as `c"..."`, many zeros at the end as their number; empty for long ones that are
        no text."""
        count = len(data)
        zeros = count - len(data.rstrip(b"\0")) - 1  # a string's own NUL is shown
        more = ""
        if zeros >= FEW_ZEROS:
            data, count, more = data[:-zeros], count - zeros, f" ({zeros} more \\00)"
        if count > MANY:
            readable = sum(32 <= b < 127 or b in (9, 10, 13) for b in data[:MANY_CHARACTERS])
            if count > MANY_CHARACTERS or readable < 0.9 * min(count, MANY_CHARACTERS):
                return ""
        return f'c"{escaped(data)}"{more}'


def element_count(layout: Layout) -> int:
    """The number of elements of an aggregate."""
    return len(layout.elements) if layout.kind == "struct" else layout.count


def element_type(layout: Layout, index: int) -> Type:
    """The type of an aggregate's element."""
    return parse_type(layout.elements[index] if layout.kind == "struct" else layout.elements[0])


def _part(layout: Layout, data: memoryview, index: int) -> memoryview:
    """The bytes of an aggregate from its element `index` on, the opposite of `pack`."""
    if layout.packed:
        whole = read_int(data, layout.bits * layout.count)
        return memoryview((whole >> index * layout.bits).to_bytes(layout.size, "little"))
    return data[layout.offsets[index] if layout.kind == "struct" else index * layout.stride :]


def pack(layout: Layout, parts: Sequence[bytes]) -> bytes:
    """The bytes of an aggregate from those of its elements."""
    if layout.packed:
        whole = 0
        for index, part in enumerate(parts):
            raw = int.from_bytes(part, "little") & (1 << layout.bits) - 1
            whole |= raw << index * layout.bits
        return whole.to_bytes(layout.size, "little")
    data = bytearray(layout.size)
    for index, part in enumerate(parts):
        at = layout.offsets[index] if layout.kind == "struct" else index * layout.stride
        room = part if layout.kind == "struct" else part[: layout.stride]
        data[at : at + len(room)] = room
    return bytes(data[: layout.size])
