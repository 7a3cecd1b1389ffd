"""Values as they stand in memory: bytes with a type, read and written as IR text and as Python.

A value's bytes are all there is; what they mean comes from a `DataType`, which says where the
parts of a value are.  Text can be typed back: `i32 49`, `%pt { i32 1, i32 2 }`.
Start from `TypedValue`; `conversion.from_python` makes them of Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitkernel.ir.names import escaped
from jitkernel.ir.types import Type, VoidType
from jitkernel.record import field, record
from jitkernel.values import literals
from jitkernel.values.datatype import DataType
from jitkernel.values.ir import Layouts
from jitkernel.values.python import part_of, read_int, to_python

# From an address to what it is called: `@g+4`, `0x7f.. (heap)`.
Describe = Callable[[int], str]

# More elements than this are elided: the first FIRST, the last LAST, and how many lie between.
MANY, FIRST, LAST = 64, 6, 2
MANY_CHARACTERS = 1024
FEW_ZEROS = 8  # at the end of a string, or as a whole array, are written out


class _Referable:
    __slots__ = ("__weakref__",)


@record
class TypedValue(_Referable):
    """A value: its type and its bytes, `layouts(type).size` of them (none for void).

    Values outlive the cells that gave them, so `layouts` keeps nothing of a cell or its run.  One
    that Python sees as its language does has a `seen` type, by which the bytes are those; `shown`
    is what that language has for it, "" where it has nothing.
    """

    type: Type
    data: bytes
    layouts: Layouts = field(repr=False, compare=False)
    seen: DataType | None = field(default=None, repr=False, compare=False)
    shown: str = field(default="", repr=False, compare=False)

    @property
    def is_void(self) -> bool:
        return isinstance(self.type, VoidType)

    @property
    def python(self) -> Any:
        """bool (i1), int (signed), float, Pointer, or a tuple of such; None for void."""
        if self.seen is None and self.is_void:
            return None
        return to_python(self.seen or self.layouts(self.type), self.data, self.layouts)

    def text(self, describe: Describe | None = None) -> str:
        """IR text, with the type; empty for void."""
        return "" if self.is_void else f"{self.type} {self.value_text(describe)}"

    def value_text(self, describe: Describe | None = None) -> str:
        """IR text without the type in front."""
        return text_of(self.layouts(self.type), self.data, describe)

    def texts(self, describe: Describe | None = None) -> tuple[str, str]:
        """As `text`, and with their unsigned hex beside negative integers."""
        if self.is_void:
            return "", ""
        type, data, writer = self.layouts(self.type), memoryview(self.data), _Writer(describe)
        text = wide = f"{self.type} {writer.value(type, data)}"
        if writer.negative:
            writer.wide = True
            wide = f"{self.type} {writer.value(type, data)}"
        return text, wide


def text_of(type: DataType, data: bytes, describe: Describe | None = None) -> str:
    """A value's IR text without its type, from its bytes."""
    return _Writer(describe).value(type, memoryview(data))


def value_html(text: str, result: bool = True) -> str:
    """HTML of a value, of the size and with the margins that JupyterLab gives plain text above and
    below: that of a cell's result stands lower than that of other values."""
    top = "6px" if result else "0"
    style = f"margin:0;padding:{top} 0 0 0.6em;font-size:0.93em"
    from html import escape  # its table of names is long

    return f'<pre style="{style}">{escape(text)}</pre>'


def void(layouts: Layouts) -> TypedValue:
    """The value of a call that returns nothing."""
    return TypedValue(VoidType(), b"", layouts)


def encode_int(value: int, bits: int, size: int) -> bytes:
    """A signed or unsigned number in two's complement, the padding zero."""
    return (value & (1 << bits) - 1).to_bytes(size, "little")


class _Writer:
    """Writes the parts of a value; `wide` adds the unsigned hex of negative integers, and
    `negative` says whether there was one."""

    def __init__(self, describe: Describe | None):
        self.describe, self.wide, self.negative = describe, False, False

    def value(self, type: DataType, data: memoryview) -> str:
        match type.kind:
            case "int":
                return self.integer(read_int(data, type.bits), type.bits)
            case "float":
                bits = read_int(data, type.bits)
                if type.name == "ppc_fp128":
                    return f"0xM{bits:032X}"
                form = literals.FORMATS[type.name]
                meant = literals.remark(bits, form)  # what is not finite has only a hex form
                return literals.shortest(bits, form) + (f" ({meant})" if meant else "")
            case "pointer":
                return self.pointer(read_int(data, type.bits))
            case "struct":
                inside = self.elements(type, data)
                inside = f"{{ {inside} }}" if inside else "{}"
                return f"<{inside}>" if type.packed else inside
            case "vector":
                return f"<{self.elements(type, data)}>"
        if type.count > FEW_ZEROS and not bytes(data[: type.size]).strip(b"\0"):
            return "zeroinitializer"
        text = self.string(bytes(data[: type.count])) if type.part(0).name == "i8" else ""
        return text or f"[{self.elements(type, data)}]"

    def integer(self, raw: int, bits: int) -> str:
        if bits == 1:
            return "true" if raw else "false"
        value = raw - (1 << bits) if raw >> bits - 1 else raw
        if bits > 8192:  # Python refuses to write more than 4300 decimal digits
            return f"0x{raw:x}"
        self.negative |= value < 0
        if self.wide and value < 0:
            return f"{value} (0x{raw:0{(bits + 3) // 4}x})"
        return str(value)

    def pointer(self, address: int) -> str:
        if not address:
            return "null"
        return self.describe(address) if self.describe else f"0x{address:x}"

    def elements(self, type: DataType, data: memoryview) -> str:
        """All of them, or the first and last with a note between."""
        count = type.elements
        shown = range(count) if count <= MANY else [*range(FIRST), *range(count - LAST, count)]
        parts = [
            f"{type.part(i).name} {self.value(type.part(i), part_of(type, data, i))}" for i in shown
        ]
        if count > MANY:
            parts.insert(FIRST, f"... {count - FIRST - LAST} more ...")
        return ", ".join(parts)

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


def pack(type: DataType, parts: Sequence[bytes]) -> bytes:
    """The bytes of an aggregate from those of its elements."""
    data = bytearray(type.size)
    if type.kind == "struct":
        for member, part in zip(type.members, parts, strict=True):
            data[member.offset : member.offset + len(part)] = part
    elif stride := type.stride:
        for index, part in enumerate(parts):
            data[index * stride : (index + 1) * stride] = part[:stride]
    elif bits := type.part(0).bits:
        whole = 0
        for index, part in enumerate(parts):
            raw = int.from_bytes(part, "little") & (1 << bits) - 1
            whole |= raw << index * bits
        return whole.to_bytes(type.size, "little")
    return bytes(data)
