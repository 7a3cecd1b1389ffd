"""Stack maps: what is read of them is what llvm-readobj says, and bad bytes are refused."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import compile_ir, needs

from jitkernel.elf import read_object
from jitkernel.elf.stack_maps import (
    DEOPT_BUNDLE_ID,
    FunctionFrame,
    Location,
    LocationKind,
    Safepoint,
    StackMapRecord,
    StackMaps,
    read_stack_maps,
)
from jitkernel.errors import LinkError

LARGE = (5 * 10**9, 99999999999)

#: Every kind of location, live outs, a frame of a varying size, constants beside small ones.
IR = """target triple = "x86_64-unknown-linux-gnu"
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare i64 @llvm.experimental.deoptimize.i64(...)
declare void @use(ptr)
define i64 @points(i64 %a, i64 %n) {
  %here = alloca i64
  %more = alloca i8, i64 %n
  call void @use(ptr %more)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 5, i64 %a, ptr %here, i64 -1, i64 99999999999, i8 3)
  %r = call i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 8, i32 15, ptr null, i32 1, i64 %a, i64 %n)
  ret i64 %r
}
define i64 @guarded(i64 %x, double %d, i32 %w) {
  %fits = icmp ult i64 %x, 10
  br i1 %fits, label %on, label %out
on:
  ret i64 %x
out:
  %r = call i64 (...) @llvm.experimental.deoptimize.i64(i64 %x) [ "deopt"(i32 3, i64 %x, double %d, i32 %w, i64 5000000000, i64 99999999999) ]
  ret i64 %r
}"""


def section(data: bytes) -> bytes:
    """The stack maps of an object."""
    obj = read_object(data)
    [index] = [i for i in range(len(obj.sections)) if obj.section_name(i) == ".llvm_stackmaps"]
    return bytes(obj.content(index))


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return compile_ir(IR, 2)


def printed(maps: StackMaps) -> str:
    """Stack maps as llvm-readobj writes them (llvm/lib/Object, StackMapPrinter)."""
    pool, lines = maps.constants, [f"Num Functions: {len(maps.functions)}"]
    lines += [
        f"Function address: {f.address}, "
        f"stack size: {(1 << 64) - 1 if f.stack_size is None else f.stack_size}, "
        f"callsite record count: {f.records}" for f in maps.functions
    ]  # fmt: skip
    lines.append(f"Num Constants: {len(pool)}")
    lines += [f"#{i}: {value}" for i, value in enumerate(pool, 1)]
    lines.append(f"Num Records: {len(maps.records)}")
    for record in maps.records:
        offset = record.address - record.function.address
        lines.append(f"Record ID: {record.id}, instruction offset: {offset}")
        lines.append(f"{len(record.locations)} locations:")
        for number, (kind, size, register, where, constant) in enumerate(record.locations, 1):
            place = {
                LocationKind.REGISTER: f"Register R#{register}",
                LocationKind.DIRECT: f"Direct R#{register} + {where}",
                LocationKind.INDIRECT: f"Indirect [R#{register} + {where}]",
                LocationKind.CONSTANT: f"Constant {where & 0xFFFF_FFFF}",  # it shows no sign
                LocationKind.CONSTANT_INDEX: f"ConstantIndex #{where} ({constant})",
            }[kind]
            lines.append(f"#{number}: {place}, size: {size}")
        outs = "".join(f"R#{out.register} ({out.size}-bytes) " for out in record.live_outs)
        lines.append(f"{len(record.live_outs)} live-outs: [ {outs}]")
    return "\n".join(lines)


@needs("llvm-readobj")
def test_it_reads_what_llvm_readobj_reads(compiled: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.o"
    path.write_bytes(compiled)
    said = subprocess.run(
        ["llvm-readobj", "--stackmap", path], capture_output=True, text=True, check=True
    ).stdout.split("LLVM StackMap Version: 3\n")[1]
    assert printed(read_stack_maps(section(compiled))).split("\n") == [
        line.strip() for line in said.strip().split("\n")
    ]


def test_every_kind_of_location_is_met(compiled: bytes) -> None:
    """So that the comparison compares something."""
    maps = read_stack_maps(section(compiled))
    assert {p.kind for r in maps.records for p in r.locations} == set(LocationKind)
    assert [r.id for r in maps.records] == [7, 8, DEOPT_BUNDLE_ID]
    assert any(r.live_outs for r in maps.records)
    assert [f.stack_size is None for f in maps.functions] == [True, False]


def test_a_deopt_bundle_is_told_apart(compiled: bytes) -> None:
    stackmap, _, deoptimize = read_stack_maps(section(compiled)).records
    point = deoptimize.statepoint
    assert len(point.deopt) == 6 and not point.pointers
    assert [place.constant for place in point.deopt] == [3, None, None, None, *LARGE]
    with pytest.raises(LinkError, match="not that of a statepoint"):
        _ = stackmap.statepoint


def test_maps_in_a_row_are_one(compiled: bytes) -> None:
    """A linker puts the sections of several objects behind each other."""
    one = read_stack_maps(section(compiled))
    assert read_stack_maps(section(compiled) * 2) == StackMaps.joined([one, one])
    assert read_stack_maps(b"") == StackMaps()


REGISTERS = {3: 0x1122334455667788, 7: 0x1000}
MEMORY = {0x1008: bytes.fromhex("ff01020304050607")}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (Location(LocationKind.REGISTER, 8, 3, 0), 0x1122334455667788),
        (Location(LocationKind.REGISTER, 4, 3, 0), 0x55667788),
        (Location(LocationKind.REGISTER, 1, 3, 8), 0x77),  # bh
        (Location(LocationKind.DIRECT, 8, 7, -16), 0xFF0),
        (Location(LocationKind.INDIRECT, 8, 7, 8), 0x07060504030201FF),
        (Location(LocationKind.INDIRECT, 2, 7, 8), 0x01FF),
        (Location(LocationKind.CONSTANT, 8, 0, -1, -1), (1 << 64) - 1),
        (Location(LocationKind.CONSTANT_INDEX, 8, 0, 0, 5 * 10**9), 5 * 10**9),
    ],
)
def test_the_value_at_a_location(place: Location, value: int) -> None:
    assert place.value(REGISTERS, lambda at, size: MEMORY[at][:size]) == value


def test_a_register_that_is_not_kept_is_refused() -> None:
    for kind in (LocationKind.REGISTER, LocationKind.DIRECT, LocationKind.INDIRECT):
        with pytest.raises(LookupError, match="register 0 is not known here"):
            Location(kind, 8, 0, 0).value(REGISTERS, lambda at, size: b"")


def _header(version: int = 3, functions: int = 0, constants: int = 0, records: int = 0) -> bytes:
    return struct.pack("<BBHIII", version, 0, 0, functions, constants, records)


_FUNCTION = struct.pack("<QQQ", 0x1000, 8, 1)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_header(version=2), "version 2"),
        (_header()[:-1], "does not parse"),
        (_header(functions=0xFFFF_FFFF), "too few"),
        (_header(records=0xFFFF_FFFF), "too few"),
        (_header(constants=1), "too few"),
        (_header(functions=1, records=0) + _FUNCTION, "does not parse"),
        (_header(functions=1, records=1) + _FUNCTION + bytes(12) + b"\0\0\1\0" + bytes(8),
         "does not parse"),
    ],
)  # fmt: skip
def test_what_is_no_stack_map_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(LinkError, match=why):
        read_stack_maps(data)


def test_a_constant_that_is_not_there_is_refused() -> None:
    places = struct.pack("<BBHHHi", 5, 0, 8, 0, 0, 0)
    record = struct.pack("<QIHH", 1, 0, 0, 1) + places + bytes(4) + bytes(8)
    with pytest.raises(LinkError, match="no constant 0"):
        read_stack_maps(_header(functions=1, records=1) + _FUNCTION + record)


@given(
    data=st.binary(max_size=200) | st.binary(max_size=120).map(lambda b: _header(3, 1, 0, 1) + b)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_stack_maps(data)
    except LinkError:
        pass


@given(data=st.data())
def test_a_damaged_map_is_read_or_refused(compiled: bytes, data: st.DataObject) -> None:
    good = bytearray(section(compiled))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(good[: data.draw(st.integers(0, len(good)))])
    try:
        maps = read_stack_maps(damaged)
    except LinkError:
        return
    assert len(maps.records) == sum(f.records for f in maps.functions)
    for record in maps.records:
        str(record)
        try:
            _ = record.statepoint
        except LinkError:
            pass


def test_safepoints_are_refused_that_no_collector_could_use() -> None:
    def maps(*places: Location, frame: int | None = 24) -> StackMaps:
        head = [Location(LocationKind.CONSTANT, 8, 0, 0, constant=0)] * 3
        function = FunctionFrame(4096, frame, 1)
        record = StackMapRecord(1, 4100, function, (*head, *places), ())
        return StackMaps((function,), (), (record,))

    spilled = Location(LocationKind.INDIRECT, 8, 7, 16)
    null = Location(LocationKind.CONSTANT, 8, 0, 0, constant=0)
    in_register = Location(LocationKind.REGISTER, 8, 3, 0)
    assert maps(spilled, spilled, null, null).safepoints() == [Safepoint(4100, 24, ((16, 16),))]
    with pytest.raises(LinkError, match="0x1004 is not on the stack: r3"):
        maps(spilled, in_register).safepoints()
    with pytest.raises(LinkError, match="0x1004 has no fixed size"):
        maps(frame=None).safepoints()
    stack_map = StackMapRecord(7, 4100, FunctionFrame(4096, None, 1), (spilled,), ())
    assert StackMaps((), (), (stack_map,)).safepoints() == [], "it is no statepoint"
