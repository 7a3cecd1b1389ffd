"""Expressions of C against clang: a program prints what random ones give, with their types."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel.errors import UsageError
from jitkernel.session.debugging.expressions import Context, evaluate, is_true
from jitkernel.session.debugging.types import type_of_ir
from jitkernel.session.debugging.values import Value, shown, type_text
from jitkernel.values.c_numbers import INT, NAMED
from jitkernel.values.datatype import DataType, Member

#: By type, and what the variables of it hold.
VARIABLES = {
    "char": (-128, 7, 65), "signed char": (-1, 100), "unsigned char": (255, 3),
    "short": (-32768, 12), "unsigned short": (65535, 9), "int": (-2147483648, 2147483647, -3, 0),
    "unsigned int": (4294967295, 5, 0), "long": (-9223372036854775807, 10, 1),
    "unsigned long": (18446744073709551615, 77), "long long": (-5, 9223372036854775807),
    "unsigned long long": (18446744073709551614, 6), "__int128": (-7, 12345678901234567890),
    "unsigned __int128": (3, 18446744073709551615), "_Bool": (0, 1), "float": (1.5, -0.1, 3e10),
    "double": (0.1, -2.25, 1e100), "long double": (0.3, 7.0),
}  # fmt: skip
NAMES = [f"v{i}" for i in range(sum(map(len, VARIABLES.values())))]
ARRAY = (3, -1, 4, -1, 5, -9, 2, -6)
BASE = 0x10000


class Memory:
    """Variables that lie behind each other."""

    def __init__(self) -> None:
        self.data = bytearray(1 << 16)
        self.next = 0
        self.known: dict[str, Value] = {}

    def add(self, name: str, type: DataType, data: bytes, **more: object) -> Value:
        at = self.next = self.next + -self.next % 16
        self.data[at : at + len(data)] = data
        self.next += len(data)
        made = self.known[name] = Value(type, BASE + at, **more)
        return made

    def read(self, address: int, size: int) -> bytes:
        at = address - BASE
        return bytes(self.data[at : at + size]) if 0 <= at < len(self.data) else b""

    def write(self, value: Value, data: bytes) -> None:
        at = value.address - BASE
        self.data[at : at + len(data)] = data

    def context(self, **more: object) -> Context:
        return Context(self.known.get, self.read, write=self.write, **more)


def number(type: DataType, value: float) -> bytes:
    if type.kind != "float":
        return (int(value) & (1 << 8 * type.size) - 1).to_bytes(type.size, "little")
    if type.size == 16:
        import numpy as np

        return bytes(np.longdouble(value).tobytes()[:10]) + bytes(6)
    return struct.pack("<f" if type.size == 4 else "<d", value)


BITS = DataType(
    "struct", "bits", 16, 8, 128,
    members=(
        Member("a", NAMED["unsigned int"], 0, 3, 0), Member("b", INT, 0, 7, 3),
        Member("c", NAMED["unsigned long"], 1, 40, 2), Member("d", NAMED["unsigned int"], 8, 32, 0),
    ),
)  # fmt: skip


@pytest.fixture
def memory() -> Memory:
    made = Memory()
    names = iter(NAMES)
    for word, values in VARIABLES.items():
        for value in values:
            made.add(next(names), NAMED[word], number(NAMED[word], value))
    made.add("w", NAMED["int"], bytes(4))
    ints = DataType("array", size=32, element=INT, count=8)
    array = made.add("arr", ints, struct.pack("<8i", *ARRAY))
    pointer = DataType("pointer", size=8, bits=64, element=INT)
    made.add("p", pointer, (array.address + 8).to_bytes(8, "little"))
    raw = 5 | (-9 & 127) << 3 | 0xABCDEF1234 << 10
    made.add("s", BITS, raw.to_bytes(8, "little") + (0x80000001).to_bytes(8, "little"))
    return made


class Generator:
    """Random expressions without undefined behaviour but signed overflow (-fwrapv)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds = dict(
            zip(NAMES, [word for word, values in VARIABLES.items() for _ in values], strict=True)
        )

    def leaf(self, whole: bool) -> str:
        pick = self.random
        names = [n for n in NAMES if not whole or "float" not in self.kinds[n]]
        names = [n for n in names if not whole or "double" not in self.kinds[n]]
        literals = ["0", "1", "42u", "0x7fffffff", "0x80000000", "2147483648", "5L", "7ul", "'a'",
                    "'\\377'", "0xffffffffffffffff", "017", "1ull", "3ll"]  # fmt: skip
        more = ["1.5f", "2.5", ".25", "1e3", "0x1.8p3", "0.1L", "0.1f"]
        places = [f"arr[{pick.randrange(8)}]", "*p", f"p[{pick.randrange(-2, 6)}]", "s.a", "s.b",
                  "s.c", "s.d", "(&s)->b", "p - arr", "*(arr + 3)", "(&arr[6] - p)",
                  "(p == arr + 2)", "(p < arr)"]  # fmt: skip
        kind = pick.random()
        if kind < 0.5:
            return pick.choice(names)
        if kind < 0.75:
            return pick.choice(literals if whole else literals + more)
        return f"({pick.choice(places)})"

    def expression(self, depth: int, whole: bool = False) -> str:
        pick = self.random
        if depth <= 0:
            return self.leaf(whole)

        def inner(whole: bool = whole) -> str:
            return self.expression(depth - 1 - pick.randrange(2), whole)

        kind = pick.randrange(14)
        if kind < 4:
            return f"({inner()} {pick.choice('+-*')} {inner()})"
        if kind == 4:
            return f"({inner(True)} {pick.choice('&|^')} {inner(True)})"
        if kind == 5:
            return f"({inner(True)} {pick.choice(['<<', '>>'])} ({inner(True)} & 31))"
        if kind == 6:
            divisor = f"(({inner(True)} & 15) + 1)"
            return f"({inner(True)} {pick.choice('/%')} {divisor})"
        if kind == 7:
            comparison = pick.choice(["<", ">", "<=", ">=", "==", "!="])
            return f"({inner(False)} {comparison} {inner(False)})"
        if kind == 8:
            return f"({inner(False)} {pick.choice(['&&', '||'])} {inner(False)})"
        if kind == 9:
            return f"({inner(False)} ? {inner()} : {inner()})"
        if kind == 10:
            sign = pick.choice(["-", "+", "!", "~"])
            return f"({sign} {inner(whole or sign == '~')})"
        if kind == 11:
            to = [t for t in VARIABLES if not whole or t not in ("float", "double", "long double")]
            target = pick.choice(to)
            real = target in ("float", "double", "long double", "_Bool")
            return f"(({target}) {inner(whole or not real)})"
        if kind == 12:
            of = inner(False) if pick.random() < 0.5 else f"({pick.choice([*VARIABLES])})"
            return f"(sizeof {'+' * ('s.' in of or 's)' in of)}{of})"
        return f"({inner(False)}, {inner()})"

    def statement(self) -> str:
        found = self.expression(self.random.randrange(1, 5))
        kind = self.random.random()
        if kind < 0.1:
            return f"w = {self.expression(2, True)}"
        if kind < 0.2:
            operator = self.random.choice(["+=", "-=", "*=", "&=", "|=", "^="])
            return f"w {operator} {self.expression(2, True)}"
        if kind < 0.25:
            return self.random.choice(
                ["w++", "--w", "s.b++", "s.a--", "++s.c", "s.d += 3", "p++ - p"]
            )
        return found


def program(expressions: list[str]) -> str:
    """A program that prints type, size and bytes of each."""
    kinds = ", ".join(f'{word}: "{word}"' for word in NAMED if word in VARIABLES)
    names = iter(NAMES)
    lines = [
        "int printf(const char *, ...); void *memcpy(void *, const void *, unsigned long);",
        f"#define SHOW(E) do {{ __typeof__((0, E)) r = (E); show(_Generic((0, E), {kinds}, "
        'default: "?"), sizeof r, &r); } while (0)',
        "static void show(const char *name, unsigned long size, void *p) {",
        '  printf("%s;%lu;", name, size); for (unsigned long i = 0; i < size; i++)',
        '    printf("%02x", ((unsigned char *)p)[i]); printf("\\n"); }',
        "struct bits { unsigned a:3; int b:7; unsigned long c:40; unsigned d:32; };",
    ]
    lines.append("static struct bits zero = {5, -9, 0xABCDEF1234ul, 0x80000001u};")
    lines.append(f"static int arr[8] = {{{', '.join(map(str, ARRAY))}}};")
    declared = []
    for word, values in VARIABLES.items():
        for value in values:
            text = str(value)
            if isinstance(value, int):
                text = f"(__int128){text}ull" if value >= 0 else f"(-{-value}ull)"
                if word == "__int128" and value < 0:
                    text = f"-(__int128){-value}"
            elif word == "float":
                text += "f"
            declared.append(f"static volatile {word} {next(names)}_ = {text};")
    lines += declared
    for at, expression in enumerate(expressions):
        locals_ = " ".join(
            f"{word} {name} = {name}_;"
            for name, word in Generator(0).kinds.items() if name in expression
        )  # fmt: skip
        lines.append(
            f"static void f{at}(void) {{ {locals_} int w = 0; struct bits s = zero; int *p = arr + 2;"
            f" (void)w; (void)s; (void)p; SHOW({expression}); }}"
        )
    calls = " ".join(f"f{at}();" for at in range(len(expressions)))
    return "\n".join([*lines, f"int main(void) {{ {calls} return 0; }}"])


def built(source: str, folder: Path) -> Path:
    """The program, compiled by clang and linked by the system's linker."""
    pytest.importorskip("ziglang")
    if not shutil.which("gcc"):
        pytest.skip("nothing links programs here")
    text, code, made = folder / "a.c", folder / "a.o", folder / "a"
    text.write_text(source)
    flags = "--target=x86_64-linux-gnu -O0 -w -fwrapv -ffp-contract=off -c".split()
    clang = [sys.executable, "-m", "ziglang", "clang", *flags, str(text), "-o", str(code)]
    subprocess.run(clang, check=True, env={**os.environ, "HOME": str(folder)})
    subprocess.run(["gcc", "-no-pie", str(code), "-o", str(made)], check=True)
    return made


def test_random_expressions_are_clangs(memory: Memory, tmp_path: Path) -> None:
    generator = Generator(24)
    expressions = [generator.statement() for _ in range(500)]
    made = built(program(expressions), tmp_path)
    said = subprocess.run([made], check=True, capture_output=True, text=True).stdout.splitlines()
    wrong = []
    initial = bytes(memory.data)
    for expression, line in zip(expressions, said, strict=True):
        memory.data[:] = initial
        try:
            value = evaluate(expression, memory.context())
        except UsageError as error:
            wrong.append((expression, line, str(error)))
            continue
        if value.bits:  # as many bits as its type
            memory.data[:] = initial
            value = evaluate(f"({value.type.bare.name}) ({expression})", memory.context())
        data = value.data if value.data is not None else memory.read(value.address, value.size)
        name, size, expected = line.split(";")
        mine = (value.type.bare.name, str(value.type.bare.size), data.hex())
        if "float" in mine[0] or "double" in mine[0]:
            data, there = data[:10], bytes.fromhex(expected)[:10]
            text = shown(Value(value.type.bare, data=data.ljust(16, b"\0")), memory.read)
            theirs = shown(Value(value.type.bare, data=there.ljust(16, b"\0")), memory.read)
            same = (text, *mine[:2]) == (theirs, name, size)
        else:
            same = mine == (name, size, expected)
        if not same:
            wrong.append((expression, line, mine))
    assert wrong == []


# -- what a random program does not say ------------------------------------------------------------

NODE = DataType("struct", "node", 16, 8, 128)
NODE.members = (
    Member("v", INT, 0),
    Member("next", DataType("pointer", size=8, bits=64, element=NODE), 8),
)
INNER = DataType("union", "", 4, members=(Member("i", INT, 0), Member("c", NAMED["char"], 0)))
OUTER = DataType("struct", "outer", 8, members=(Member("", INNER, 0), Member("k", INT, 4)))
FUNCTION = DataType("function", element=INT, parameters=(INT,))
TYPES = {
    "struct node": NODE, "node_t": DataType("typedef", "node_t", element=NODE),
    "byte": DataType("typedef", "byte", element=NAMED["unsigned char"]),
    "struct opaque": DataType("struct", "opaque", complete=False),
    "enum color": DataType("enum", "color", 4, 4, 32, signed=False, constants=(("RED", 0),)),
}  # fmt: skip


@pytest.fixture
def nodes(memory: Memory) -> Memory:
    second = memory.add("second", NODE, struct.pack("<i4xQ", -7, 0))
    memory.add("node", NODE, struct.pack("<i4xQ", 3, second.address))
    pointer = DataType("pointer", size=8, bits=64, element=NODE)
    memory.add("list", pointer, memory.known["node"].address.to_bytes(8, "little"))
    memory.add("lost", pointer, (0x10).to_bytes(8, "little"))
    memory.add("null", pointer, bytes(8))
    memory.add("o", OUTER, struct.pack("<ii", 0x4142, 9))
    opaque = DataType("pointer", size=8, bits=64, element=TYPES["struct opaque"])
    memory.add("opaque", opaque, (BASE).to_bytes(8, "little"))
    rows = DataType(
        "array", size=16, element=DataType("array", size=8, element=INT, count=2), count=2
    )
    memory.add("m", rows, struct.pack("<4i", 1, 2, 3, 4))
    memory.known["out"] = Value(INT, missing="<optimised out>")
    memory.known["f"] = Value(FUNCTION, 0x5000)
    memory.known["RED"] = Value(TYPES["enum color"], data=bytes(4))
    memory.known["inside"] = Value(INT, data=struct.pack("<i", 11), place="rax")
    return memory


@pytest.mark.parametrize(
    ("text", "value", "type"),
    [
        ("node.v + list->next->v", "-4", "int"), ("(*list).v", "3", "int"),
        ("list->next->next == NULL", "1", "int"), ("!null", "1", "int"),
        ("null && null->v", "0", "int"), ("list || lost->v", "1", "int"),
        ("list ? list->v : lost->v", "3", "int"), ("sizeof *lost", "16", "unsigned long"),
        ("sizeof(struct node)", "16", "unsigned long"), ("sizeof(node_t *[3])", "24", "unsigned long"),
        ("sizeof(int (*)[3])", "8", "unsigned long"), ("sizeof m[0]", "8", "unsigned long"),
        ("sizeof m / sizeof m[0][0]", "4", "unsigned long"), ("m[1][0]", "3", "int"),
        ("*(*(m + 1) + 1)", "4", "int"), ("&m[1] - &m[0]", "1", "long"), ("*m[1]", "3", "int"),
        ("o.c", "'B'", "char"), ("o.i == 0x4142", "1", "int"), ("(byte) -1", "255", "unsigned char"),
        ("(unsigned char) o.i", "66", "unsigned char"), ("((struct node *) list)->v", "3", "int"),
        ("((node_t *) (long) list)->v", "3", "int"), ("RED == 0", "1", "int"),
        ("(enum color) 0 == RED", "1", "int"), ("inside * 2", "22", "int"), ("f != 0", "1", "int"),
        ("&node == list", "1", "int"), ("node", "{.v = 3, .next = 0x10", "struct node"),
        ("(1, 2)", "2", "int"), ("-2147483648", "-2147483648", "long"), ("'\\n'", "10", "int"),
        ("1 ? 2 : 3.0", "2.0", "double"), ("0 ? 1 / 0 : 4", "4", "int"), ("1 << 31 >> 31", "-1", "int"),
        ("5 % -3", "2", "int"), ("-7 / 2", "-3", "int"), ("1.0 / 0", "INFINITY", "double"),
        ("0.0 / 0 == 0.0 / 0", "0", "int"), ("true + false", "1", "int"),
        ("sizeof(unsigned long long int)", "8", "unsigned long"), ("(long double) 1 / 3 > 0.333L", "1", "int"),
    ],
)  # fmt: skip
def test_evaluated(nodes: Memory, text: str, value: str, type: str) -> None:
    context = nodes.context(types=TYPES.get)
    found = evaluate(text, context)
    assert shown(found, nodes.read).startswith(value)
    assert type_text(found) == type


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an expression is expected"), ("1 +", "the text ends (column 4"),
        ("node.", "no member is called : it has v, next (column 6"),
        ("node.w", "no member is called w: it has v, next (column 6"),
        ("o.w", "no member is called w: it has i, c, k (column 3"), ("w.v", "int has no members"),
        ("nothing + 1", "nothing here is called nothing (column 1"),
        ("1 + x y", "nothing here is called x (column 5"), ("w w", "'w' was not expected here (column 3"),
        ("(1 + 2", "')' is expected, but the text ends (column 7"),
        ("lost->v + 1", "the memory at 0x10 cannot be read (column"), ("1 / 0", "division by zero (column 3"),
        ("1 % (2 - 2)", "division by zero (column 3"), ("out + 1", "it has no value here: optimised out"),
        ("1 << 32", "a number of 32 bits is not shifted by 32 (column 3"),
        ("*w", "int is no pointer (column 1"), ("node + 1", "'+' wants numbers, not struct node (column 6"),
        ("g(1)", "calls are not evaluated here (column 1"), ("f(1)", "calls are not evaluated here (column 2"),
        ('"text"', "texts are not evaluated here (column 1"), ("&1", "what is in no memory has no address"),
        ("&s.a", "a bit-field has no address (column 1"), ("1 = 2", "nothing that can be set (column 3"),
        ("out = 1", "nothing that can be set: optimised out (column 5"),
        ("1.5 % 2", "'%' wants integers (column 5"), ("opaque + 1", "nobody says here what size it has"),
        ("opaque->x", "nothing is known of its members"), ("(struct none *) 0", "no type here is called struct none (column 2"),
        ("(void) 1 + 1", "wants numbers, not void"), ("9" * 30, "is too large for a number of C"),
        ("5x", "5x is no number (column 1"), ("1 # 2", "'#' at column 3 is not understood"),
        ("(" * 200 + "1" + ")" * 200, "nested too deeply"), ("!" * 500 + "1", "nested too deeply"),
        ("list * 2", "'*' is not for pointers"), ("(int) 1e30", "the number is none of int"),
        ("(struct node) w", "int does not become struct node"), ("w ? node : 1", "have no type in common"),
        ("sizeof s.a", "a bit-field has no size"), ("~1.5", "~ wants a number, not double"),
    ],
)  # fmt: skip
def test_errors_say_what_and_where(nodes: Memory, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(text, nodes.context(types=TYPES.get))
    assert said in str(caught.value)


def test_assignments_are_the_callers(nodes: Memory) -> None:
    put = []
    context = Context(nodes.known.get, nodes.read, write=lambda v, data: put.append((v, data)))
    assert shown(evaluate("inside = 3 + 4", context), nodes.read) == "7"
    assert put == [(nodes.known["inside"], struct.pack("<i", 7))]
    assert shown(evaluate("list->v = 70000", nodes.context()), nodes.read) == "70000"
    assert shown(evaluate("second = node, second.v", nodes.context()), nodes.read) == "70000"
    assert shown(evaluate("s.b = 100", nodes.context()), nodes.read) == "-28"  # of 7 bits
    assert shown(evaluate("s.a", nodes.context()), nodes.read) == "5"
    with pytest.raises(UsageError, match="nothing is set here"):
        evaluate("w = 1", Context(nodes.known.get, nodes.read))
    before = bytes(nodes.data)
    evaluate("sizeof(w = 5) + (0 && (w = 6)) + (1 || w++) + (1 ? 2 : (w = 7))", nodes.context())
    assert bytes(nodes.data) == before


def test_calls_are_the_callers(nodes: Memory) -> None:
    asked = []

    def call(function: Value, arguments: list[Value]) -> Value:
        asked.append((function.address, [shown(a, nodes.read) for a in arguments]))
        return Value(INT, data=struct.pack("<i", 42))

    context = Context(nodes.known.get, nodes.read, call=call)
    assert shown(evaluate("f(node.v + 1, 2.5) / 2", context), nodes.read) == "21"
    assert evaluate("sizeof f(1)", context).data == (4).to_bytes(8, "little")
    evaluate("0 && f(3)", context)
    assert asked == [(0x5000, ["4", "2.5"])]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("%i == 10", "1"), ("%i + 1", "11"), ("%n < 0", "1"), ("%n == 4294967295u", "1"),
        ("%n < 0u", "0"), ("%i%3", "1"), ("%i %3", "1"), ("(%i) % 3", "1"), ("%i-1", "9"),
        ("%i - %a-1", "5"), ("%a-1 * 2", "10"), ("%c && true", "1"), ("%c == 1", "1"),
        ("%wide == -1", "1"), ("%d * 2", "5.0"), ("*%home", "-2"), ("*%home + 1", "-1"),
("(*%arr)[1]", "-1"), ("%pair[1]", "2.5"), ("(*%pairs)[0]", "3"),
        ("%vec[2]", "3.5"), ("%bits[1]", "false"), ("%p == 0x1000", "1"), ("%p == null", "0"),
        ('%"a b" + 1', "8"), ("%0 + %1", "3"), ("@g + 1", "6"), ("sizeof %wide", "8"),
        ("*(int *) %home", "-2"), ("%i ? %d : 0", "2.5"), ("%b", "-1"), ("%b.x + 1", "2"),
    ],
)  # fmt: skip
def test_values_of_llvm(text: str, value: str) -> None:
    memory = Memory()

    def add(name: str, type: str, data: bytes) -> Value:
        return memory.add(name, type_of_ir(type), data, ir=True)

    add("%i", "i32", struct.pack("<i", 10))
    add("%n", "i32", struct.pack("<i", -1))
    add("%a-1", "i8", b"\5")
    add("%b", "i8", b"\xff")
    add("%b.x", "i8", b"\1")
    add("%c", "i1", b"\1")
    add("%wide", "i33", ((1 << 33) - 1).to_bytes(8, "little"))
    add("%d", "double", struct.pack("<d", 2.5))
    at = add("cell", "i32", struct.pack("<i", -2)).address
    add("%home", "ptr to i32", struct.pack("<Q", at))
    at = add("cells", "[3 x i32]", struct.pack("<3i", 3, -1, 4)).address
    add("%arr", "ptr to [3 x i32]", struct.pack("<Q", at))
    add("%pair", "{ i32, double }", struct.pack("<i4xd", 3, 2.5))
    add("%pairs", "ptr to { i32, double }", struct.pack("<Q", memory.known["%pair"].address))
    add("%vec", "<4 x float>", struct.pack("<4f", 1, 2, 3.5, 4))
    add("%bits", "<4 x i1>", b"\5")
    add("%p", "ptr", struct.pack("<Q", 0x1000))
    add('%"a b"', "i16", struct.pack("<h", 7))
    add("%0", "i32", struct.pack("<i", 1))
    add("%1", "i64", struct.pack("<q", 2))
    add("@g", "i32", struct.pack("<i", 5))
    found = evaluate(text, memory.context())
    assert shown(found, memory.read) == value


def test_setting_values_of_llvm() -> None:
    memory = Memory()
    memory.add("%c", type_of_ir("i1"), b"\0", ir=True)
    memory.add("%wide", type_of_ir("i33"), bytes(8), ir=True)
    assert shown(evaluate("%c = 2", memory.context()), memory.read) == "true"
    evaluate("%wide = -1", memory.context())
    assert memory.read(memory.known["%wide"].address, 8) == ((1 << 33) - 1).to_bytes(8, "little")
    evaluate("*&%wide = 5", memory.context())
    assert shown(memory.known["%wide"], memory.read) == "5"
    with pytest.raises(UsageError, match="leads to nothing known: cast it first"):
        memory.add("%p", type_of_ir("ptr"), bytes(8), ir=True)
        evaluate("*%p", memory.context())


def test_conditions() -> None:
    memory = Memory()
    memory.add("x", INT, struct.pack("<i", 3))
    context = memory.context()
    assert is_true(evaluate("x", context), context)
    assert not is_true(evaluate("x == 4", context), context)
    assert is_true(evaluate("0.5", context), context)
    with pytest.raises(UsageError, match="a number is wanted"):
        is_true(Value(NODE, BASE), context)
