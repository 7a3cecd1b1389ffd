"""An object that was put together is what is read of its bytes, which nobody asks for until then."""

import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import compile_c, needs

from jitkernel.elf import read_object
from jitkernel.elf.constants import SYMBOL
from jitkernel.elf.relocations import Columns, Relocations
from jitkernel.elf.writer import BuiltObject
from jitkernel.errors import LinkError
from jitkernel.linker.builder import Builder
from jitkernel.linker.far_data import detour
from jitkernel.linker.ifuncs import make_ordinary
from jitkernel.linker.thread_locals import emulate

pytestmark = needs("as")
_FIELDS = (
    "machine", "sections", "symbols", "locals", "groups", "strings", "names", "shared_names",
    "relocations",
)  # fmt: skip
_COMMON = "static int twice(int x) { static int n; return 2 * x + n++; }\n"
_PARTS = {
    "plain": "int f(int); int own = 1; int a(int x) { return f(x) + twice(x) + own; }",
    "groups": '__asm__(".section .text.g,\\"axG\\",@progbits,g,comdat\\n.weak g\\ng: ret\\n'
    '.text\\ncall g\\n.quad g"); int b(int x) { return twice(x); }',
    "far": "extern char *stderr; char *c(void) { return stderr + twice(1); }",
    "chosen": "static int one(void) { return 1; } static void *pick(void) { return one; }\n"
    '__attribute__((ifunc("pick"))) int e(void); int d(void) { return e(); }',
    "thread": "__thread int t = 3; static __thread int u; int h(void) { return t + u + twice(4); }",
}


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    "names", [*([name] for name in _PARTS), ["plain", "plain"], [*_PARTS]], ids="+".join
)
def test_an_object_that_was_put_together_is_what_its_bytes_say(names, loaded):
    builder = Builder()
    for number, name in enumerate(names):
        source = _COMMON + _PARTS[name].replace("own", f"own{number}").replace(
            " a(", f" a{number}("
        )
        builder.add(read_object(compile_c(source, "-O1", "-g", "-fpic")), name, loaded=loaded)
    emulate(builder, "it")
    make_ordinary(builder)
    if "far" in names:
        detour(builder, {"stderr"})
    made = builder.object()
    read = read_object(made.data)
    assert len(made) == len(made.data) == len(read)
    for field in _FIELDS:
        assert getattr(made, field) == getattr(read, field), field
    for index, table in read.tables.items():
        assert made.tables[index].columns == table.columns
        assert [*made.tables[index]] == [*table] and made.tables[index].table == table.table
    for index in range(len(read.sections)):
        assert made.content(index) == read.content(index)
        assert made.section_name(index) == read.section_name(index)
    assert [made.symbol_name(n) for n in range(len(made.symbols))] == [
        read.symbol_name(n) for n in range(len(read.symbols))
    ]


def test_the_bytes_are_put_together_once_and_late(monkeypatch):
    builder = Builder()
    builder.add(read_object(compile_c("int f(int x) { return x; }")), "it")
    made = builder.object()
    assert "data" not in vars(made)
    first = made.data
    monkeypatch.setattr(BuiltObject, "content", None)
    assert made.data is first


def test_an_object_is_read_where_it_is():
    data = compile_c(_COMMON + _PARTS["plain"], "-O1")
    alone = read_object(data)
    amid = read_object(b"x" * 13 + data + b"\x7f" * 200, 13, len(data))
    assert amid.data == data and amid.relocations == alone.relocations
    assert [amid.content(n) for n in range(len(amid.sections))] == [
        alone.content(n) for n in range(len(alone.sections))
    ]
    with pytest.raises(LinkError, match=r"lies? outside|not a whole"):
        read_object(data + data, 0, len(data) - 1)


def test_symbols_that_are_local_come_first():
    """As System V gABI, "Symbol Table", has it; GNU ld says the same of such a table."""
    data = compile_c("int f(int); int g(int x) { return f(x) + 1; }", "-O1")
    obj = read_object(data)
    assert obj.symbols[obj.locals - 1][1] >> 4 == 0 and obj.symbols[obj.locals][1] >> 4
    later = next(s for s in obj.symbols if s[1] >> 4 and not s[3])
    wrong = data.replace(SYMBOL.pack(*later), SYMBOL.pack(later[0], 0, *later[2:]))
    with pytest.raises(LinkError, match="symbols that are local are behind others"):
        read_object(wrong)


def test_columns_of_relocations_are_the_relocations():
    rows = [(8, 5 << 32 | 2, -4), (0, 1 << 32 | 4, 7), (1 << 40, 3 << 32 | 41, 0)]
    for more in ([], [(3, 2 << 32 | 300, 1)]):  # a type that no byte holds
        table = b"".join(struct.pack("<QQq", *row) for row in rows + more)
        read = Relocations(table)
        columns = read.columns
        assert [*read] == [*Relocations(columns=columns)] == rows + more
        assert Relocations(columns=columns).table == table
        assert len(read) == len(Relocations(columns=columns)) == len(rows + more)
        assert columns.symbols_of(frozenset((2, 41))) == {5, 3}
        assert [*columns.numbers_of(frozenset((2, 41, 300)))] == [0, 2, 3][: 2 + len(more)]
        assert isinstance(columns.types, bytes) == (not more)
    assert Relocations().columns == Columns([], b"", [], [])


def test_an_object_may_be_added_after_all_symbols_were_asked_for():
    builder = Builder()
    builder.add(read_object(compile_c(_COMMON + _PARTS["thread"], "-O1", "-fpic")), "one")
    emulate(builder, "one")
    builder.add(read_object(compile_c(_COMMON + _PARTS["plain"], "-O0", "-fpic")), "two")
    read = read_object(builder.write())
    named = [read.symbol_name(n) for n in range(len(read.symbols))]
    assert [named.count(name) for name in ("h", "a", "f", "own", "twice")] == [1] * 5
