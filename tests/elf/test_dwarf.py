"""Debug information of placed objects, against gdb, objdump and pyelftools."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from debugged import Observed, compiled, inlining, observe, program
from elftools.elf.elffile import ELFFile
from llvmlite import binding as llvm

from jitkernel.elf import read_object
from jitkernel.elf.dwarf import DebugInfo, Local, Place, locate
from jitkernel.session.debugging.numbers import decode
from jitkernel.session.debugging.types import Types
from jitkernel.session.debugging.values import Value, bytes_of, children
from jitkernel.values.datatype import Member
from jitkernel.values.python import bit_field
from tests.seeds import seeds

FLAGS = ("-g", "-O0", "-fno-omit-frame-pointer")
BUILDS = [
    ("clang", "-gdwarf-4", *FLAGS), ("clang", "-gdwarf-5", *FLAGS), ("gcc", "-gdwarf-5", *FLAGS),
    ("gcc", "-gdwarf-4", *FLAGS),
]  # fmt: skip


def reader(stop: dict[str, Any]) -> Any:
    pieces = [(address, bytes.fromhex(data)) for address, data in stop["memory"]]

    def read(address: int, size: int) -> bytes:
        for start, data in pieces:
            if start <= address < start + len(data):
                return data[address - start : address - start + size]
        return b""

    return read


def leaves(value: Value, read: Any) -> dict[str, str]:
    """The scalars in a value by their paths."""
    bare = value.type.bare
    if bare.kind in ("struct", "union", "array"):
        found = {}
        for part in children(value, read, 0, 1000):
            found.update({part.path + p: v for p, v in leaves(part.value, read).items()})
        return found
    data = bytes_of(value, read)
    if data is None:
        return {"": "unreadable"}
    if value.bits:
        return {"": str(int(bit_field(Member("", bare, 0, value.bits, value.shift), data)))}
    if bare.kind == "pointer":
        return {"": str(int.from_bytes(data, "little"))}
    number = decode(bare, data)
    return {"": repr(float(number)) if bare.kind == "float" else str(number)}


def compare(seen: Observed) -> tuple[int, list[object]]:
    """How many variables were compared in all frames, and where they differ."""
    types, count = Types(seen.info), 0
    wrong: list[object] = []
    for stop in seen.stops:
        read = reader(stop)
        for depth, frame in enumerate(stop["frames"]):
            pc = frame["pc"] - (depth > 0)
            function = seen.info.function(pc)
            assert function is not None
            row = seen.info.row(pc)
            if (function.name, row and row.line) != (frame["name"], frame["line"]):
                wrong.append((frame["name"], frame["line"], function.name, row))
            mine = {local.name: local for local in seen.info.variables(function, pc)}
            if set(mine) != set(frame["names"]):
                wrong.append((frame["name"], frame["line"], sorted(mine), sorted(frame["names"])))
                continue
            for name, theirs in frame["names"].items():
                place = locate(mine[name], pc, frame["registers"], read, frame["cfa"])
                at = place.address if place is not None else None
                value = Value(types.of(mine[name]), at)
                is_long = "[variable length]" in theirs["type"]  # nobody says how long
                found = theirs["leaves"] if is_long else leaves(value, read)
                count += len(found)
                if at != theirs.get("address", at) or found != theirs["leaves"]:
                    wrong.append((name, frame["line"], place, found, theirs))
    return count, wrong


@pytest.mark.parametrize("seed", seeds(len(BUILDS), 20))
def test_locals_are_gdbs(seed: int, tmp_path: Path) -> None:
    compiler, *flags = BUILDS[seed % len(BUILDS)]
    seen = observe(program(seed), tmp_path, compiler, *flags)
    count, wrong = compare(seen)
    assert wrong == []
    assert count > 20


def compare_optimised(seen: Observed) -> tuple[dict[str, int], list[object]]:
    """As `compare`, of code with inlined functions: how many agree, how many are nowhere, and how
    many gdb knows from their callers (DW_OP_entry_value)."""
    types, counts = Types(seen.info), dict.fromkeys(("same", "none", "entry"), 0)
    wrong: list[object] = []
    for stop in seen.stops:
        read, level, called = reader(stop), 0, False
        for frame in stop["frames"]:
            pc = frame["pc"] - called
            function = seen.info.function(pc)
            chain = [one.name for one in seen.info.inlined(pc)]
            names = [*chain, function.name]
            if names[level] != frame["name"] or (level < len(chain)) != frame["inlined"]:
                wrong.append((frame["name"], level, names))
            mine = {one.name: one for one in seen.info.variables(function, pc, level)}
            for name, theirs in frame["names"].items():
                place = name in mine and locate(
                    mine[name], pc, frame["registers"], read, frame["cfa"]
                )
                found = optimised(types, mine.get(name), place, frame["registers"], read)
                if None in theirs["leaves"].values():
                    counts["none"] += found is None
                elif found is None:
                    counts["entry"] += 1
                elif "error" not in theirs and found != theirs["leaves"]:
                    wrong.append((name, frame["name"], hex(pc), place, found, theirs))
                else:
                    counts["same"] += 1
            if set(mine) - set(frame["names"]):
                wrong.append((frame["name"], sorted(mine), sorted(frame["names"])))
            level = level + 1 if frame["inlined"] else 0
            called = called if frame["inlined"] else True
    return counts, wrong


def optimised(
    types: Types, local: Local | None, place: Place | None, registers: dict[str, int], read: Any
) -> dict[str, str] | None:
    if local is None or not place:
        return None
    type = types.of(local)
    data = place.bytes(type.bare.size, registers, read)
    return None if data is None else leaves(Value(type, data=data), read)


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_optimised_locals_are_gdbs(seed: int, tmp_path: Path) -> None:
    compiler = ("clang", "gcc")[seed % 2]
    version = ("-gdwarf-4", "-gdwarf-5")[seed // 2 % 2]
    seen = observe(inlining(seed), tmp_path, compiler, "-g", version, "-O2")
    counts, wrong = compare_optimised(seen)
    assert wrong == []
    assert counts["same"] > 20


# -- lines -----------------------------------------------------------------------------------------

LINES = """\
int other(int); static inline int twice(int x) {
  int y = other(x);
  return y;
}

int first(int a) {
  int b = a;

  for (int i = 0; i < a; i++)
    b += twice(i);
  return b;
}
int second(int a) { int b = twice(a); return b * 3; }
"""


def placed(code: bytes, base: int = 0x400000) -> DebugInfo:
    """Its sections of code and data behind each other."""
    addresses = {}
    for index, section in enumerate(read_object(code).sections):
        if section[2] & 2:  # SHF_ALLOC
            addresses[index] = base
            base += section[5] + -section[5] % 4096
    return DebugInfo(code, addresses)


@pytest.mark.parametrize("build", [*BUILDS, ("clang", "-g", "-O2"), ("gcc", "-g", "-O2")])
def test_rows_are_objdumps(build: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    code = compiled(program(3).replace("int main", "int end") + LINES, tmp_path, *build)
    said = subprocess.run(
        ["objdump", "--dwarf=decodedline", str(tmp_path / "a.o")],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    theirs: dict[int, int] = {}  # of several rows at one address the last one counts
    for line in said.splitlines():
        row = re.match(r"\S+\s+(\d+)\s+(0x[0-9a-f]+|0)(?:\[\d+\])?\s", line)
        if row:
            theirs[int(row[2], 16)] = int(row[1])
    lines = DebugInfo(code, {}).lines
    assert {row.start: row.line for row in lines.rows} == theirs
    assert len(theirs) > 50


@pytest.mark.parametrize("build", [*BUILDS, ("clang", "-g", "-O2"), ("gcc", "-g", "-O2")])
def test_rows_are_those_of_pyelftools(build: tuple[str, ...], tmp_path: Path) -> None:
    code = compiled(program(4), tmp_path, *build)
    dwarf = ELFFile(io.BytesIO(code)).get_dwarf_info()
    theirs = []
    for unit in dwarf.iter_CUs():
        before = None
        for entry in dwarf.line_program_for_CU(unit).get_entries():
            state = entry.state
            if state is not None:
                if before is not None and state.address > before.address:
                    theirs.append((before.address, state.address, before.line, before.is_stmt))
                before = None if state.end_sequence else state
    mine = [(row.start, row.stop, row.line, row.is_stmt) for row in DebugInfo(code, {}).lines.rows]
    assert mine == sorted(theirs)


@pytest.mark.parametrize("build", BUILDS)
def test_where_lines_begin(build: tuple[str, ...], tmp_path: Path) -> None:
    info = placed(compiled(LINES, tmp_path, *build))
    file = info.functions[0].file
    assert Path(file).name == "a.c"
    named = {function.name: function for function in info.functions}
    assert {*named} == {"twice", "first", "second"}
    # Line 8 is empty, 5 and 6 are before a function's body.
    assert info.starts(8, file)[0] == 9
    assert info.starts(5, file) == (6, [named["first"].body])
    assert info.starts(7, file)[1] == [named["first"].body]
    assert info.starts(99, file) == (0, [])
    assert info.starts(1, "other.c") == (0, [])
    first = named["first"]
    assert first.low < first.body < first.high
    assert first.low in first and first.high not in first
    lines = [line for _, line in info.statement_starts(first)]
    assert lines[0] == 7 and {*lines} >= {7, 9, 10, 11} and not {*lines} - {*range(6, 13)}
    assert info.function(first.high - 1) == first
    deeper = info.variables(first, first.high - 1, 7)  # than anything is inlined: its own
    assert {local.name for local in deeper} == {"a", "b"}
    assert info.function(0x10) is None and info.row(0x10) is None


def test_inlined_copies(tmp_path: Path) -> None:
    """A line of an inlined function begins in each of its copies."""
    info = placed(compiled(LINES, tmp_path, "clang", "-g", "-O2"))
    named = {function.name: function for function in info.functions}
    assert {*named} == {"first", "second"}
    line, starts = info.starts(2, named["first"].file)
    assert line == 2 and len(starts) == 2
    for start in starts:
        copies = info.inlined(start)
        assert [copy.name for copy in copies][:1] == ["twice"]
        assert copies[0].line in (10, 13)
    assert any(start in named["second"] for start in starts)


def test_functions_apart(tmp_path: Path) -> None:
    """Each function in a section of its own, far from the others."""
    code = compiled(LINES, tmp_path, "gcc", "-g", "-O0", "-ffunction-sections")
    elf = read_object(code)
    places = {
        index: 0x10000 * index for index, section in enumerate(elf.sections)
        if elf.section_name(index).startswith(".text")
    }  # fmt: skip
    info = DebugInfo(code, places)
    for number, (_, kind, _, section, value, size) in enumerate(elf.symbols):
        if kind & 15 == 2:  # STT_FUNC
            function = info.function(places[section] + value + size - 1)
            assert function is not None and function.name == elf.symbol_name(number)
            assert (function.low, function.high - function.low) == (places[section] + value, size)


def test_thousand_blocks_in_each_other(tmp_path: Path) -> None:
    depth = 1000
    inside = "\n".join(f"{{ int v{i} = {i}; sink(v{i});" for i in range(depth))
    source = f"void sink(int); int f(int a) {{\n{inside}\n{'}' * depth} return a; }}"
    info = placed(compiled(source, tmp_path, "gcc", "-g", "-O0"))
    function = info.functions[0]
    line, (start,) = info.starts(depth + 1, function.file)
    assert line == depth + 1
    names = [local.name for local in info.variables(function, start)]
    assert names == [*(f"v{i}" for i in reversed(range(depth))), "a"]


def test_entries_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    """Of many functions, those of one: an entry each for the others, and their types none."""
    text = "\n".join(
        f"int f{i}(int a) {{ int b = a; {{ long c = b; b += c; }} return b; }}" for i in range(200)
    )
    info = placed(compiled(text, tmp_path, "clang", "-g", "-O0"))
    assert info.starts(100, info.lines.rows[0].file)[0] == 100
    function = info.functions[99]
    assert len(info.variables(function, function.body)) == 2
    below = len(info.entries.tree(function.offset).children)
    assert len(info.entries._dies) < 200 + 3 * below


def test_an_object_without_debug_information(tmp_path: Path) -> None:
    info = placed(compiled(LINES, tmp_path, "gcc", "-O0"))
    assert (info.functions, info.globals, info.type_names, info.lines.rows) == ([], [], {}, [])
    assert info.function(0x400000) is None and info.row(0x400000) is None
    assert (info.starts(1, "a.c"), info.inlined(0x400000)) == ((0, []), [])


# -- values of LLVM's ------------------------------------------------------------------------------

VALUES = """\
define i32 @f(i32 %a) #0 !dbg !5 {
entry:
  %h.a = alloca i32
  %h.x = alloca i32
  %h.y = alloca i32
  %h.z = alloca { i8, i32 }
    #dbg_declare(ptr %h.a, !10, !DIExpression(), !16)
    #dbg_declare(ptr %h.x, !11, !DIExpression(), !17)
    #dbg_declare(ptr %h.y, !12, !DIExpression(), !18)
    #dbg_declare(ptr %h.z, !13, !DIExpression(), !19)
  store volatile i32 %a, ptr %h.a
  %x = add i32 %a, 1, !dbg !17
  store volatile i32 %x, ptr %h.x, !dbg !17
  br i1 true, label %one, label %two, !dbg !21
one:
  %y = mul i32 %x, 3, !dbg !18
  store volatile i32 %y, ptr %h.y, !dbg !18
  store volatile i32 0, ptr %h.y, !dbg !22
  ret i32 %y, !dbg !22
two:
  store volatile { i8, i32 } { i8 1, i32 2 }, ptr %h.z, !dbg !19
  ret i32 7, !dbg !23
}
attributes #0 = { "frame-pointer"="all" }
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!3, !4}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: FullDebug)
!2 = !DIFile(filename: "cell", directory: "")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !{i32 2, !"Dwarf Version", i32 4}
!5 = distinct !DISubprogram(name: "f", file: !2, line: 1, type: !6, unit: !1, spFlags: DISPFlagDefinition)
!6 = !DISubroutineType(types: !7)
!7 = !{null}
!8 = !DIBasicType(name: "i32", size: 32, encoding: DW_ATE_unsigned)
!9 = !DIBasicType(name: "{ i8, i32 }", size: 64, encoding: DW_ATE_unsigned)
!10 = !DILocalVariable(name: "%a", arg: 1, scope: !5, file: !2, line: 1, type: !8)
!11 = !DILocalVariable(name: "%x", scope: !14, file: !2, line: 3, type: !8)
!12 = !DILocalVariable(name: "%y", scope: !15, file: !2, line: 6, type: !8)
!13 = !DILocalVariable(name: "%z", scope: !20, file: !2, line: 9, type: !9)
!14 = distinct !DILexicalBlock(scope: !5, file: !2, line: 3)
!15 = distinct !DILexicalBlock(scope: !14, file: !2, line: 6)
!16 = !DILocation(line: 1, scope: !5)
!17 = !DILocation(line: 3, scope: !14)
!18 = !DILocation(line: 6, scope: !15)
!19 = !DILocation(line: 9, scope: !20)
!20 = distinct !DILexicalBlock(scope: !14, file: !2, line: 9)
!21 = !DILocation(line: 4, scope: !14)
!22 = !DILocation(line: 7, scope: !15)
!23 = !DILocation(line: 10, scope: !20)
"""


@pytest.mark.parametrize(
    ("line", "defined"),
    [
        (3, ["%a"]), (4, ["%a", "%x"]), (6, ["%a", "%x"]), (7, ["%a", "%x", "%y"]),
        (9, ["%a", "%x"]), (10, ["%a", "%x", "%z"]),
    ],
)  # fmt: skip
def test_which_values_are_defined(line: int, defined: list[str]) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(opt=0)
    info = placed(target.emit_object(llvm.parse_assembly(VALUES)))
    function = info.functions[0]
    found, starts = info.starts(line, "cell")
    assert found == line
    values = info.variables(function, starts[0])
    assert [value.name for value in values] == ["%a", "%x", "%y", "%z"]
    assert [value.name for value in values if value.defined] == defined
    types = Types(info)
    assert [types.of(value).name for value in values] == ["i32", "i32", "i32", "{ i8, i32 }"]
    place = locate(values[1], starts[0], {"rbp": 0x1000}, lambda address, size: b"")
    assert place is not None and place.kind == "memory" and place.address < 0x1000


# -- expressions of places -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("03 0010000000000000", Place("memory", address=0x1000)),
        ("91 70", Place("memory", address=0x2000 - 16)),  # fbreg -16, of rbp
        ("76 08", Place("memory", address=0x2008)),  # breg6 +8
        ("91 00 06", Place("memory", address=0x1122)),  # what is at the frame's address
        ("50", Place("register", register="rax")),
        ("61", Place("register", register="xmm0")),
        ("90 03", Place("register", register="rbx")),
        ("35 9f", Place("value", data=(5).to_bytes(8, "little"))),
        ("11 7f 9f", Place("value", data=b"\xff" * 8)),
        ("70 00 23 05 9f", Place("value", data=(0x77 + 5).to_bytes(8, "little"))),
        ("38 33 1c 9f", Place("value", data=(5).to_bytes(8, "little"))),  # 8 - 3
        ("09 f9 32 1b 9f", Place("value", data=(-3).to_bytes(8, "little", signed=True))),  # -7 / 2
        ("35 36 16 14 9f", Place("value", data=(6).to_bytes(8, "little"))),  # swap, over
        ("31 28 0100 32 33 9f", Place("value", data=(3).to_bytes(8, "little"))),  # bra over lit2
        ("9c", Place("memory", address=0x3000)),
        ("50 93 04 93 04", Place("pieces", pieces=((Place("register", register="rax"), 4), (None, 4)))),
        ("9e 02 0102", Place("value", data=b"\x01\x02")),
        ("a3 01 55 9f", None),  # entry_value
        ("f3 01 55 9f", None),
        ("f2 00000000 00", None),  # implicit_pointer
        ("", None),
        ("2f fdff", None),  # for ever
        ("03 00", None),  # cut off
        ("54", Place("register", register="rsi")),
        ("74 00", None),  # breg4: nobody knows rsi
    ],
)  # fmt: skip
def test_places(expression: str, place: Place | None) -> None:
    local = Local("x", 0, False, 1, "", bytes.fromhex(expression), frame=b"\x56")
    registers = {"rax": 0x77, "rbp": 0x2000, "rbx": 1}

    def read(address: int, size: int) -> bytes:
        return (0x1122).to_bytes(size, "little") if address == 0x2000 else b""

    assert locate(local, 0x400000, registers, read, 0x3000) == place


def test_bytes_of_places() -> None:
    memory = {0x10: b"\x01\x02\x03\x04"}

    def read(address: int, size: int) -> bytes:
        return memory.get(address, b"")[:size]

    registers = {"rax": 0x1122334455667788, "xmm0": 0x3FF0000000000000}
    of = Place("register", register="rax")
    assert of.bytes(4, registers, read) == bytes.fromhex("88776655")
    assert Place("register", register="xmm0").bytes(16, registers, read) == bytes.fromhex(
        "000000000000f03f 0000000000000000"
    )
    assert Place("register", register="rdx").bytes(4, registers, read) is None
    assert Place("memory", address=0x10).bytes(4, registers, read) == b"\x01\x02\x03\x04"
    assert Place("memory", address=0x10).bytes(8, registers, read) is None
    pieces = Place("pieces", pieces=((of, 2), (Place("memory", address=0x10), 2)))
    assert pieces.bytes(4, registers, read) == bytes.fromhex("88770102")
    assert Place("pieces", pieces=((None, 4), (of, 4))).bytes(8, registers, read) is None


def test_what_is_put_where() -> None:
    registers = {"rax": 0x1122334455667788}
    rax, memory = Place("register", register="rax"), Place("memory", address=0x10)
    assert rax.put(b"\1\0\0\0", registers) == ([], {"rax": 0x1122334400000001})
    assert memory.put(b"ab", registers) == ([(0x10, b"ab")], {})
    both = Place("pieces", pieces=((rax, 2), (memory, 2)))
    assert both.put(b"abcd", registers) == ([(0x10, b"cd")], {"rax": 0x1122334455666261})
    for lost in (Place("value", data=b"a"), Place("pieces", pieces=((rax, 2), (None, 2)))):
        assert not lost.settable
        with pytest.raises(ValueError, match="in no place that can be set"):
            lost.put(b"abcd", registers)
    assert rax.settable and both.settable
    with pytest.raises(ValueError, match="rbx cannot be set"):
        Place("register", register="rbx").put(b"a", registers)
