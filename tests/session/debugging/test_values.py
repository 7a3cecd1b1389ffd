"""Values that stand: what is shown, what opens, and what may be set."""

from __future__ import annotations

import struct

import pytest

from jitkernel.elf.dwarf import Place
from jitkernel.errors import UsageError
from jitkernel.session.debugging.setting import assign
from jitkernel.session.debugging.types import type_of_ir
from jitkernel.session.debugging.values import (
    Part,
    Value,
    bytes_of,
    children,
    counts,
    shown,
    type_text,
    value_at,
)
from jitkernel.values.c_numbers import INT, NAMED
from jitkernel.values.datatype import VOID, DataType, Member
from jitkernel.values.ir import data_type
from jitkernel.values.value import TypedValue

BASE = 0x1000
MEMORY = bytearray(0x400)
MEMORY[0x100:0x10A] = b'say "hi"\n\0'
MEMORY[0x200:0x210] = struct.pack("<i4xd", 7, 2.5)
MEMORY[0x210:0x220] = struct.pack("<4i", 1, -2, 3, 4)
MEMORY[0x3FE:0x400] = b"ab"  # a text that memory ends in


def read(address: int, size: int) -> bytes:
    at = address - BASE
    return bytes(MEMORY[at : at + size]) if 0 <= at < len(MEMORY) else b""


def describe(address: int) -> str:
    return {0x5000: "@f", 0x5004: "@f+4", 0x1200: "@g"}.get(address, f"{address:#x} (stack)")


def pointer(of: DataType) -> DataType:
    return DataType("pointer", size=8, bits=64, element=of)


def array(of: DataType, count: int) -> DataType:
    size = of.bare.size * count
    return DataType("array", size=size, bits=8 * size, element=of, count=count)


CHAR, UCHAR, DOUBLE, LONG = (NAMED[n] for n in ("char", "unsigned char", "double", "long"))
COLOR = DataType(
    "enum", "color", 4, 4, 32, signed=True, constants=(("RED", 0), ("GREEN", 5), ("BLUE", -1))
)
POINT = DataType("struct", "point", 16, members=(Member("x", INT, 0), Member("y", DOUBLE, 8)))
INNER = DataType("union", "", 4, members=(Member("i", INT, 0), Member("f", NAMED["float"], 0)))
MIXED = DataType(
    "struct", "mixed", 24,
    members=(
        Member("a", NAMED["unsigned int"], 0, 3, 0), Member("b", INT, 0, 7, 3),
        Member("c", COLOR, 1, 4, 2), Member("", INT, 1, 2, 6), Member("", INNER, 4),
        Member("p", pointer(POINT), 8), Member("s", array(CHAR, 8), 16),
    ),
)  # fmt: skip
BYTES = (5 | (-9 & 127) << 3 | (-1 & 15) << 10).to_bytes(4, "little") + struct.pack(
    "<iQ8s", 1, 0x1200, b"abc"
)
FUNCTION = DataType("function", element=INT, parameters=(INT,))


def of(type: DataType, data: bytes) -> Value:
    return Value(type, data=data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (of(INT, b"\xff\xff\xff\xff"), "-1"),
        (of(NAMED["unsigned int"], b"\xff\xff\xff\xff"), "4294967295"),
        (of(CHAR, b"a"), "'a'"),
        (of(UCHAR, b"a"), "97"),
        (of(NAMED["_Bool"], b"\1"), "true"),
        (of(DOUBLE, struct.pack("<d", 0.1)), "0.1"),
        (of(COLOR, b"\5\0\0\0"), "GREEN"),
        (of(COLOR, b"\x09\0\0\0"), "9"),
        (of(pointer(INT), bytes(8)), "NULL"),
        (of(pointer(VOID), struct.pack("<Q", 0x7000)), "0x7000"),
        (of(pointer(POINT), struct.pack("<Q", 0x1200)), "&g"),
        (of(pointer(FUNCTION), struct.pack("<Q", 0x5000)), "f"),
        (of(pointer(FUNCTION), struct.pack("<Q", 0x5004)), "0x5004 <f+4>"),
        (Value(FUNCTION, 0x5000), "f"),
        (of(pointer(CHAR), struct.pack("<Q", BASE + 0x100)), '"say \\"hi\\"\\n"'),
        (of(pointer(CHAR), struct.pack("<Q", 0x10)), "0x10 <cannot be read>"),
        (of(pointer(CHAR), struct.pack("<Q", BASE + 0x3FE)), '"ab" /* ... */'),
        (Value(POINT, BASE + 0x200), "{.x = 7, .y = 2.5}"),
        (Value(INT, 0x10), "<cannot be read>"),
        (Value(INT, BASE + 0x3FE), "<cannot be read>"),
        (Value(array(INT, 4), BASE + 0x210), "{1, -2, 3, 4}"),
        (of(MIXED, BYTES), '{.a = 5, .b = -9, .c = BLUE, {.i = 1, .f = 1e-45}, .p = &g, .s = "abc"}'),
        (Value(INT, missing="<optimised out>"), "<optimised out>"),
        (Value(VOID), "void"),
        (Value(array(INT, 1 << 30), BASE), "<cannot be read>"),
        (of(type_of_ir("i1"), b"\1"), "'\\001'"),
    ],
)  # fmt: skip
def test_shown(value: Value, text: str) -> None:
    if value.type.name == "i1":
        value, text = Value(value.type, data=b"\1", ir=True), "true"
    assert shown(value, read, describe) == text


@pytest.mark.parametrize(
    "text",
    ["i32 5", "i32 -5", "i1 true", "i33 -1", "double 1.5", "<4 x float>", "{ i8, ptr }", "[3 x i16]",
     "ptr null", "<8 x i1>"],
)  # fmt: skip
def test_values_of_llvm_are_shown_as_by_cells(text: str) -> None:
    words = text.rsplit(" ", 1) if text[0] not in "<{[" else [text, ""]
    type = data_type(words[0])
    data = bytes(range(1, type.size + 1))
    if words[1]:
        data = assign(Value(type, ir=True, data=bytes(type.size)), words[1], read)
    cell = TypedValue.__new__(TypedValue)
    object.__setattr__(cell, "type", words[0])
    object.__setattr__(cell, "data", data)
    object.__setattr__(cell, "layouts", data_type)
    value = Value(type, data=data, ir=True)
    expected = cell.value_text()
    assert shown(value, read) == (expected if len(expected) <= 80 else expected[:77] + "...")
    assert type_text(value) == words[0]
    if words[1]:
        assert shown(value, read) == words[1]


def test_long_values_are_cut() -> None:
    value = of(array(INT, 20), bytes(range(80)))
    text = shown(value, read)
    assert len(text) == 80 and text.endswith("...")
    text = shown(of(array(UCHAR, 5000), bytes(5000)), read)
    assert len(text) <= 80 and text.startswith("{0, 0")


def parts(value: Value, start: int = 0, count: int = 0) -> list[tuple[str, str]]:
    return [
        (part.expression("v"), shown(part.value, read, describe))
        for part in children(value, read, start, count)
    ]


def test_members() -> None:
    value = of(MIXED, BYTES)
    assert counts(value, read) == (7, 0)
    assert parts(value) == [
        ("v.a", "5"), ("v.b", "-9"), ("v.c", "BLUE"), ("v.i", "1"), ("v.f", "1e-45"),
        ("v.p", "&g"), ("v.s", '"abc"'),
    ]  # fmt: skip
    assert parts(value, 1, 2) == [("v.b", "-9"), ("v.c", "BLUE")]


def test_pointers_open_to_what_they_lead_to() -> None:
    to_point = of(pointer(POINT), struct.pack("<Q", BASE + 0x200))
    assert counts(to_point, read) == (2, 0)
    assert parts(to_point) == [("v->x", "7"), ("v->y", "2.5")]
    to_int = of(pointer(INT), struct.pack("<Q", BASE + 0x214))
    assert (counts(to_int, read), parts(to_int)) == ((1, 0), [("*v", "-2")])
    to_array = of(pointer(array(INT, 4)), struct.pack("<Q", BASE + 0x210))
    assert parts(to_array, 1, 1) == [("(*v)[1]", "-2")]
    for type, address in [(VOID, BASE), (FUNCTION, 0x5000), (POINT, 0)]:
        closed = of(pointer(type), struct.pack("<Q", address))
        assert (counts(closed, read), parts(closed)) == ((0, 0), [])
    lost = of(pointer(POINT), struct.pack("<Q", 0x10))
    assert parts(lost) == [("v->x", "<cannot be read>"), ("v->y", "<cannot be read>")]
    assert parts(Value(pointer(POINT), 0x10)) == []


def test_elements_come_in_pages() -> None:
    value = Value(array(INT, 4), BASE + 0x210)
    assert counts(value, read) == (0, 4)
    assert parts(value, 1, 2) == [("v[1]", "-2"), ("v[2]", "3")]
    large = Value(array(INT, 10**6), BASE)
    assert [p.name for p in children(large, read, 999_998, 10)] == ["[999998]", "[999999]"]
    assert len(children(large, read)) == 100
    rows = Value(array(array(INT, 2), 2), BASE + 0x210)
    assert parts(rows) == [("v[0]", "{1, -2}"), ("v[1]", "{3, 4}")]
    inner = children(rows, read)[1]
    assert [p.expression(inner.expression("m")) for p in children(inner.value, read)] == [
        "m[1][0]", "m[1][1]",
    ]  # fmt: skip


def test_parts_of_values_of_llvm() -> None:
    def ir(text: str, data: bytes) -> Value:
        return Value(type_of_ir(text), data=data, ir=True)

    struct_ = ir("{ i8, i32 }", b"\1\0\0\0\xff\xff\xff\xff")
    assert parts(struct_) == [("v[0]", "1"), ("v[1]", "-1")]
    bits = ir("<4 x i1>", b"\x05")
    assert parts(bits) == [("v[0]", "true"), ("v[1]", "false"), ("v[2]", "true"), ("v[3]", "false")]
    vector = ir("<2 x float>", struct.pack("<2f", 1.5, -2))
    assert parts(vector) == [("v[0]", "1.5"), ("v[1]", "-2.0")]
    home = ir("ptr to [4 x i32]", struct.pack("<Q", BASE + 0x210))
    assert (type_text(home), counts(home, read)) == ("ptr to [4 x i32]", (0, 4))
    assert parts(home, 1, 1) == [("(*v)[1]", "-2")]
    scalar = ir("ptr to i32", struct.pack("<Q", BASE + 0x214))
    assert parts(scalar) == [("*v", "-2")]
    assert parts(ir("ptr", struct.pack("<Q", BASE))) == []


def test_complex_numbers_have_two_parts() -> None:
    type = DataType("complex", "double _Complex", 16, bits=128)
    value = of(type, struct.pack("<2d", 1, -2.5))
    assert shown(value, read) == "1.0 - 2.5i"
    assert parts(value) == [("v.real", "1.0"), ("v.imaginary", "-2.5")]
    led_to = of(pointer(type), struct.pack("<Q", BASE))
    assert (counts(led_to, read), [name for name, _ in parts(led_to)]) == (
        (2, 0), ["v->real", "v->imaginary"],
    )  # fmt: skip


def test_expressions_of_parts() -> None:
    part = Part("x", Value(INT), ".x")
    assert part.expression("*p") == "(*p).x"
    assert part.expression("a[1]") == "a[1].x"
    assert Part("*", Value(INT), "*").expression("p->q") == "*(p->q)"
    assert Part("[2]", Value(INT), "[2]").expression("%v") == "%v[2]"


# -- setting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "text", "data"),
    [
        (INT, "-5", b"\xfb\xff\xff\xff"), (INT, "0x10", b"\x10\0\0\0"), (INT, "010", b"\x08\0\0\0"),
        (INT, "'a'", b"a\0\0\0"), (INT, "5L", b"\5\0\0\0"), (INT, " 0b11 ", b"\3\0\0\0"),
        (NAMED["unsigned int"], "4294967295u", b"\xff" * 4), (CHAR, "'\\n'", b"\n"),
        (CHAR, "-128", b"\x80"), (UCHAR, "255", b"\xff"), (NAMED["_Bool"], "true", b"\1"),
        (NAMED["_Bool"], "0", b"\0"), (COLOR, "BLUE", b"\xff" * 4), (COLOR, "7", b"\7\0\0\0"),
        (DOUBLE, "0.1", struct.pack("<d", 0.1)), (DOUBLE, "-1e3", struct.pack("<d", -1000)),
        (DOUBLE, "7", struct.pack("<d", 7)), (DOUBLE, "inf", struct.pack("<d", float("inf"))),
        (NAMED["float"], "0.1f", struct.pack("<f", 0.1)), (DOUBLE, "0x1.8p1", struct.pack("<d", 3)),
        (NAMED["long double"], "1.5L", bytes(7) + b"\xc0\xff\x3f" + bytes(6)),
        (pointer(INT), "0x1234", struct.pack("<Q", 0x1234)), (pointer(INT), "NULL", bytes(8)),
        (array(CHAR, 5), '"a\\tb"', b"a\tb\0\0"), (array(CHAR, 2), '"ab"', b"ab"),
        (DataType("complex", "double _Complex", 16), "1 + 2i", struct.pack("<2d", 1, 2)),
    ],
)  # fmt: skip
def test_assigned(type: DataType, text: str, data: bytes) -> None:
    assert assign(Value(type, BASE), text, read) == data


@pytest.mark.parametrize(
    ("type", "text", "said"),
    [
        (INT, "2147483648", "expected an integer from -2147483648 to 2147483647"),
        (INT, "abc", "expected an integer from -2147483648 to 2147483647"),
        (INT, "1.5", "expected an integer"),
        (UCHAR, "-1", "expected an integer from 0 to 255, or a character such as 'a'"),
        (CHAR, "'ab'", "expected one character"),
        (NAMED["_Bool"], "2", "expected true or false"),
        (COLOR, "PINK", "expected RED, GREEN, BLUE, or a number"),
        (DOUBLE, "x", "expected a number such as 1.5"),
        (NAMED["float"], "1e60", "beyond the largest float"),
        (pointer(INT), "here", "expected an address"),
        (pointer(INT), "0x10000000000000000", "expected an address of 64 bits"),
        (array(CHAR, 2), '"abc"', "the text has 3 bytes, the array 2"),
        (array(INT, 2), "1", "one part at a time"),
        (POINT, "{1, 2}", "one part at a time"),
        (array(CHAR, 5), '"a', '" is missing at the end'),
    ],
)  # fmt: skip
def test_what_is_not_assigned(type: DataType, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        assign(Value(type, BASE), text, read)
    assert said in str(caught.value)
    assert type_text(Value(type)) in str(caught.value)


def test_bit_fields_leave_their_neighbours_alone() -> None:
    whole = of(MIXED, BYTES)
    named = {part.name: part.value for part in children(whole, read)}
    for name, text, after in [("a", "2", "2"), ("b", "-64", "-64"), ("c", "GREEN", "GREEN")]:
        part = named[name]
        data = bytearray(BYTES)
        at = 0 if name in "ab" else 1
        put = assign(part, text, read)
        assert len(put) == part.size == len(bytes_of(part, read))
        data[at : at + len(put)] = put
        changed = dict(parts(of(MIXED, bytes(data))))
        assert changed == {**dict(parts(whole)), f"v.{name}": after}
    with pytest.raises(UsageError, match="expected an integer from 0 to 7"):
        assign(named["a"], "8", read)
    with pytest.raises(UsageError, match="around the bit-field cannot be read"):
        assign(Value(INT, 0x10, bits=3), "1", read)


def test_what_was_optimised_out_is_not_set() -> None:
    with pytest.raises(UsageError, match="optimised out"):
        assign(Value(INT, missing="<optimised out>"), "1", read)


def test_values_at_places() -> None:
    def nothing(address: int, size: int) -> bytes:
        return b""

    registers = {"rax": 0xFFFFFFFF00000005}
    assert value_at(INT, Place("memory", address=BASE), registers, nothing) == Value(INT, BASE)
    register = Place("register", register="rax")
    found = value_at(INT, register, registers, nothing)
    assert (shown(found, nothing), found.place) == ("5", register)
    fixed = value_at(INT, Place("value", data=b"\7"), registers, nothing)
    assert (shown(fixed, nothing), fixed.place) == ("7", None)
    for lost in (None, Place("register", register="xmm0"), Place("pieces", pieces=((None, 4),))):
        assert shown(value_at(INT, lost, registers, nothing), nothing) == "<optimised out>"
