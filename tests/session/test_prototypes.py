"""What C says of a value, and IR does not: signs, members, what is passed by value."""

from __future__ import annotations

import ctypes
import inspect
import pickle
import re
import struct
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from jitkernel.errors import UsageError
from jitkernel.languages.llvm.plan import LanguageNote
from jitkernel.languages.prototypes import Prototype
from jitkernel.portable import arrival
from jitkernel.session.program.names import NotesSeen

np = pytest.importorskip("numpy")
pytest.importorskip("ziglang")

CELL = r"""
#include <stdlib.h>
typedef struct { double x, y; } pt;
struct ii { int x, y; };
struct f3 { float x, y, z; };
struct odd { char a; double b; };
struct text { char t[3]; short n; };
struct six { long v[6]; };
struct nest { pt p, q; };
struct wide { long double l; int k; };
struct none {};
typedef float v4 __attribute__((vector_size(16)));
enum color { RED, GREEN };

unsigned char uc(unsigned char x) { return x; }
unsigned short us(unsigned short x) { return x; }
unsigned ui(unsigned x) { return x; }
unsigned long ul(unsigned long x) { return x; }
size_t sz(void) { return (size_t)-1; }
_Bool yes(int x) { return x > 1; }
enum color next(enum color c) { return c + 1; }

double norm2(pt p) { return p.x * p.x + p.y * p.y; }
pt mk(double x, double y) { return (pt){x, y}; }
struct ii mki(int x, int y) { return (struct ii){x, y}; }
float sum3(struct f3 v) { return v.x + v.y + v.z; }
double mixed(struct odd a, int k, struct text b) { return a.a + a.b + k + b.t[0] + b.n; }
struct six flip(struct six s) { struct six r; for (int i = 0; i < 6; i++) r.v[i] = s.v[5 - i]; return r; }
double inner(struct nest nest) { return nest.p.x + nest.q.y; }
struct wide twice(struct wide w) { w.l *= 2; w.k++; return w; }
struct date { unsigned day : 5, month : 4; int offset : 6; unsigned : 3; unsigned long year : 33; _Bool leap : 1; char c; };
struct date back(struct date d) { d.day--; d.offset--; d.year++; d.leap = !d.leap; d.c++; return d; }
struct small { int a : 3, b : 5; };
int sign(struct small s) { return s.a * 100 + s.b; }
struct words { char word[2][4]; };
int third(struct words w) { return w.word[0][2] + w.word[1][0]; }
struct words swap(struct words w) { char c = w.word[0][0]; w.word[0][0] = w.word[1][0]; w.word[1][0] = c; return w; }
char table[2][3][5] = {{"a", "bc"}, {"def"}};
struct none nothing(struct none a, int x) { return a; }
double _Complex square(double _Complex z) { return z * z; }
float _Complex squaref(float _Complex z) { return z * z; }
v4 both(v4 a) { return a + a; }
double many(pt a, pt b, pt c, pt d, pt e) { return a.x + b.x + c.x + d.x + e.y; }
double dot(const pt *a, pt b) { return a->x * b.x + a->y * b.y; }

unsigned long u = -1;
unsigned us3[3] = {1, 4000000000u, 3};
pt origin = {1, 2};
pt path[2] = {{1, 2}, {3, 4}};
char name[8] = "abc";
double _Complex z = 1 + 2i;
_Bool flag = 1;
struct { unsigned low : 4, high : 4; } bits = {1, 2};
union { int i; float f; } either = {7};
"""


@pytest.fixture(scope="module")
def defined(shared):
    shared.reset()
    shared.run(CELL, "c")
    return shared


@pytest.fixture
def s(defined):
    yield defined
    defined.check()


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("uc", (200,), 200), ("us", (65535,), 65535), ("ui", (2**32 - 1,), 2**32 - 1),
        ("ul", (2**64 - 1,), 2**64 - 1), ("ul", (-1,), 2**64 - 1), ("sz", (), 2**64 - 1),
        ("yes", (2,), True), ("next", (0,), 1),
        ("norm2", ((3, 4),), 25.0), ("norm2", ([3, 4],), 25.0), ("norm2", ({"x": 3, "y": 4},), 25.0),
        ("norm2", ({"y": 4},), 16.0), ("norm2", (np.array([3.0, 4.0]),), 25.0),
        ("norm2", (np.array([(3, 4)], dtype="f8,f8")[0],), 25.0),
        ("mk", (1, 2), (1.0, 2.0)), ("mki", (-1, 2), (-1, 2)), ("sum3", ((1, 2, 3),), 6.0),
        ("mixed", ((1, 2.5), 7, (b"ab", 3)), 1 + 2.5 + 7 + 97 + 3),
        ("mixed", ({"a": 1}, 7, {"t": "b"}), 1 + 7 + 98.0),
        ("flip", ((range(6),),), ((5, 4, 3, 2, 1, 0),)),
        ("inner", ({"p": (1, 2), "q": {"y": 4}},), 5.0),
        ("twice", ((1.5, 2),), (3.0, 3)), ("nothing", ((), 3), ()),
        ("square", (1 + 2j,), -3 + 4j), ("squaref", (2j,), -4 + 0j), ("square", (3,), 9 + 0j),
        ("both", ((1, 2, 3, 4),), (2.0, 4.0, 6.0, 8.0)),
        ("many", ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10)), 26.0),
        ("dot", (np.array([1.0, 2.0]), (3, 4)), 11.0),
    ],
)  # fmt: skip
def test_values_go_and_come_as_c_has_them(s, name, arguments, result):
    for _ in range(3):  # the first call of a function teaches the way to go
        assert s[name](*arguments) == s.call(name, *arguments) == result
        assert isinstance(s[name](*arguments), type(result))


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("norm2", (), r"takes 1 argument \(double norm2\(pt p\)\), 0 given"),
        ("norm2", (1, 2), "1 argument .*, 2 given"),
        ("norm2", (3,), r"is a struct \(x, y\), a tuple or a dict: a Python int"),
        ("norm2", ((3,),), r"is a struct \(x, y\)"),
        ("norm2", ((3, "4"),), "argument 1, y: a Python str cannot be double"),
        ("norm2", ({"x": 3, "z": 4},), "argument 1 has no member 'z': it has x, y"),
        ("mixed", ((1, 2), 3, ("abcd", 1)), "argument 3, t is text of at most 3 bytes"),
        ("flip", ((range(5),),), "v is an array of 6 elements"),
        ("square", ("1j+",), "is a complex number: a Python str"),
        ("ul", (2**64,), "does not fit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(s, name, arguments, why):
    with pytest.raises(UsageError, match=why):
        s[name](*arguments)


@pytest.mark.parametrize(
    ("name", "value", "again"),
    [
        ("u", 2**64 - 1, 2**63), ("us3", (1, 4000000000, 3), (2**32 - 1, 0, 7)),
        ("origin", (1.0, 2.0), {"x": 5.0, "y": 6.0}), ("path", ((1.0, 2.0), (3.0, 4.0)), ((1, 2), (3, 5))),
        ("name", b"abc\0\0\0\0\0", "xyz"), ("z", 1 + 2j, 3j), ("flag", True, False),
    ],
)  # fmt: skip
def test_variables_are_read_and_written_as_c_has_them(s, name, value, again):
    variable = s[name]
    assert variable.value == value and isinstance(variable.value, type(value))
    variable.value = again
    wanted = tuple(again.values()) if isinstance(again, dict) else again
    assert variable.value == (wanted.encode().ljust(8, b"\0") if name == "name" else wanted)
    variable.value = value
    assert variable.value == value


def test_arrays_have_members_and_signs(s):
    assert s["origin"].array.dtype.names == ("x", "y")
    assert s["path"].array["y"].tolist() == [2.0, 4.0]
    assert s["us3"].array.tolist() == [1, 4000000000, 3]
    assert s["z"].array == 1 + 2j
    assert s["bits"].value == (1, 2) and s["bits"].array.dtype.kind == "V"
    assert len(s["either"].value) == 4


def test_the_value_of_a_cell_is_the_same(s):
    for cell, value in {
        "u": 2**64 - 1, "us3": (1, 4000000000, 3), "origin": (1.0, 2.0), "path[1]": (3.0, 4.0),
        "name": b"abc\0\0\0\0\0", "z * 2": 2 + 4j, "flag": True, "(unsigned char)200": 200,
        "sizeof u": 8, "2 > 1": 1, "1.5L": 1.5, "(char)65": 65,
    }.items():  # fmt: skip
        assert s.run(cell, "c").value == value, cell


def test_signatures_are_cs(s):
    assert str(inspect.signature(s["norm2"])) == "(p: tuple) -> float"
    assert str(inspect.signature(s["flip"])) == "(s: tuple) -> tuple"
    assert str(inspect.signature(s["square"])) == "(z: complex) -> complex"
    assert str(inspect.signature(s["ul"])) == "(x: int) -> int"


def test_the_present_definition_counts(fresh):
    with fresh() as s:
        s.run("struct p { int x, y; }; int f(struct p a) { return a.x; } struct p g = {1, 2};", "c")
        assert s["f"]((5, 6)) == 5 and s["g"].value == (1, 2)
        s.run("struct p { double z; int x; };", "c")
        assert s["f"]((0.5, 6)) == 6 and s["g"].array.dtype.names == ("z", "x")
        s.run("unsigned f(void) { return -1; }", "c")
        assert s["f"]() == 2**32 - 1
        s.run("define i32 @f() {\n  ret i32 -1\n}")
        assert s["f"]() == -1
        s.undo(3)
        assert s["f"]((5, 6)) == 5 and s["g"].value == (1, 2)


def test_text_is_for_pointers_to_bytes_alone(fresh):
    """Numbers would be read out of its letters."""
    with fresh() as s:
        s.run("double total(const double *v) { return *v; } int pp(char **p) { return !*p; }", "c")
        s.run("int first(const unsigned char *p, void *q) { return *p - *(char *)q; }", "c")
        s.run(
            "#include <uchar.h>\n#include <wchar.h>\nint wide(const wchar_t *w) { return w[1]; }",
            "c",
        )
        s.run("int u16(const char16_t *u) { return u[1]; }", "c")
        assert s.call("wide", ctypes.create_unicode_buffer("a\u4e2d")) == 0x4E2D
        for name, type in (
            ("total", "const double *"), ("pp", "char **"), ("wide", "const wchar_t *"),
            ("u16", "const char16_t *"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=f"is {re.escape(type)}, and a Python str is"):
                s.call(name, "abc")
        assert s.call("first", "abc", "abd") == 0


@pytest.mark.parametrize("word", ["nest", "inreg", "signext", "swiftself"])
def test_names_are_no_attributes(fresh, word):
    """Whatever a parameter, or the type that it leads to, is called."""
    with fresh() as s:
        s.run(f"define i64 @f(i64 %a, i64 %{word}) {{\n  ret i64 %{word}\n}}")
        assert s["f"](1, 2) == 2
        s.run(f"%{word} = type {{ i64, i64, i64 }}\ndefine i64 @g(ptr byval(%{word}) %p) {{\n"
              "  %v = load i64, ptr %p\n  ret i64 %v\n}")  # fmt: skip
        three = (ctypes.c_int64 * 3)(7, 8, 9)
        assert s["g"](three) == 7


def test_a_module_for_python_has_the_signs(s, tmp_path):
    s.export(["ui", "uc"], tmp_path / "signs.py")
    space = {}
    exec((tmp_path / "signs.py").read_text(), space)
    assert space["ui"](-1) == 2**32 - 1 and space["uc"](-1) == 255
    with pytest.raises(UsageError, match="more than numbers and pointers"):
        s.export(["mki"], tmp_path / "points.py")


ODD = r"""
struct wide { double x[4]; } __attribute__((aligned(32)));
struct wide ident(struct wide a) { return a; }
struct line { double x[8]; } __attribute__((aligned(64)));
long place(struct line a) { long p = (long)&a; __asm__ volatile("" : "+r"(p)); return p & 63; }
struct B { int x; } __attribute__((aligned(16)));
int padded(struct B a, int b) { return a.x * 1000 + b; }
int two(struct B a, struct B b) { return a.x * 10 + b.x; }
union U { char c; __attribute__((aligned(16))) int x; };
int either(union U a, int b) { return a.x * 1000 + b; }
#define DECL(n, t) t n(t x) { return x - 1; }
DECL(du, unsigned)
DECL(di, int)
DECL(dd, double)
struct AA { union { int q; float r; }; struct { union { int q2; float r2; }; int w; }; } aa = {1, {2, 3}};
int nameless(struct AA a) { return a.q * 1000 + a.q2 * 100 + a.w * 10; }
enum E { A, B = 4000000000 };
enum E large(void) { return B; }
enum E every[2] = {A, B};
struct pq { unsigned x, y; double z; };
int unused(__attribute__((unused)) struct pq a, unsigned b) { return b - a.x; }
typedef char v16 __attribute__((vector_size(16)));
v16 same(v16 a) { return a; }
__int128 huge = 5;
struct {} nothing;
float _Complex z;
float _Complex idf(float _Complex z) { return z; }
struct none {};
struct big { long x[4]; };
int empties(struct none a, struct big b, struct none c, long d) { return b.x[3] * 10 + d; }
struct late { unsigned : 3; long x; } late(struct none a, struct late b) { b.x *= 2; return b; }
struct void3 { unsigned : 3; } blank(struct void3 a, struct big b) { return a; }
union over { struct { int x; } __attribute__((aligned(16))) s; char c; };
int overs(union over u, int x) { return u.s.x * 1000 + x; }
unsigned _BitInt(128) ninth(long a, long b, long c, long d, long e, long f, unsigned _BitInt(128) g)
{ return g + f; }
"""


def test_odd_types_go_and_come(fresh):
    with fresh() as s:
        s.run(ODD, "c")
        for _ in range(3):
            assert s["ident"](((1, 2, 3, 4),)) == ((1.0, 2.0, 3.0, 4.0),)
            assert s["place"](((1,) * 8,)) == 0
        assert s["padded"]((7,), 5) == s["either"](b"\7" + bytes(15), 5) == 7005
        assert s["two"]((7,), (8,)) == 78
        for _ in range(2):
            assert s["empties"]((), ((1, 2, 3, 4),), (), 5) == 45
            assert s["late"]((), (2**40,)) == (2**41,)
            assert s["blank"]((), ((1, 2, 3, 4),)) == ()
            assert s["overs"](b"\7" + bytes(15), 5) == 7005
            assert s["ninth"](1, 2, 3, 4, 5, 6, 2**100) == 2**100 + 6
            assert [s[f](0) for f in ("du", "di", "dd")] == [2**32 - 1, -1, -1.0]
        assert s["nameless"](s["aa"].value) == 1230 and s["aa"].array["w"] == 3
        assert s["large"]() == 4000000000 and s["every"].value == (0, 4000000000)
        assert s["unused"]((1, 2, 3.0), 5) == 4
        assert s["same"](range(16)) == tuple(range(16))
        assert len(bytes(s["huge"].array)) == 16
        s["z"].value = 2.0
        assert s["z"].value == 2
        for wrong in (1e300, 10**400, "1"):
            with pytest.raises(UsageError, match="argument 1"):
                s["idf"](wrong)
        with pytest.raises(UsageError, match="no bytes"):
            s["nothing"].array  # noqa: B018


def test_functions_that_travel_take_their_shapes_along(s):
    ul, norm2, flip = (pickle.loads(pickle.dumps(s[name])) for name in ("ul", "norm2", "flip"))
    try:
        assert ul(-1) == 2**64 - 1
        assert norm2({"x": 3, "y": 4}) == 25.0
        assert flip((range(6),)) == ((5, 4, 3, 2, 1, 0),)
        with pytest.raises(UsageError, match="argument 1 has no member 'z'"):
            norm2({"z": 1})
    finally:
        arrival._close()


INT = ["int", "", 4, 32, True, None, 0, []]


@pytest.mark.parametrize(
    "row",
    [
        None, 3, [], [1, 2, 3, 4, 5, 6],
        *([row, None, [], "", []] for row in (
            ["int", "", 4, 64, False, None, 0, []], ["int", "", 4, 8, False, None, 0, []],
            ["int", "", 4, 32, 7, None, 0, []], ["int", 3, 4, 32, True, None, 0, []],
            ["float", "zz", 8, 64, None, None, 0, []], ["float", "double", 4, 64, None, None, 0, []],
            ["complex", "double _Complex", 8, 64, None, None, 0, []], ["bool", "", 2, 16, False, None, 0, []],
            ["pointer", "", 4, 32, None, None, 0, []], ["nothing", "", 0, 0, None, None, 0, []],
            ["bytes", "", -1, 0, None, None, 0, []], ["bytes", "", 1 << 40, 0, None, None, 0, []],
            ["bytes", "", 1, 16, None, None, 0, []], [["int"], "", 4, 32, True, None, 0, []],
            ["array", "", 8, 0, None, INT, 3, []], ["array", "", 8, 0, None, None, 2, []],
            ["vector", "", 8, 0, None, INT, 3, []],
            ["struct", "", 4, 0, None, None, 0, [["a", INT, 2, 0, 0]]],
            ["struct", "", 4, 0, None, None, 0, [["", INT, 0, 0, 0]]],
            ["struct", "", 4, 0, None, None, 0, [["a", INT, 0, 5, 0]]],
            ["struct", "", 4, 0, None, None, 0, [["a", ["int", "", 1, 5, True, None, 0, []], 0, 5, 4]]],
        )),
        [None, [None], [], "", []], [None, 3, [], "", []], [None, None, [3], "", []],
        [None, None, [], "", [["double *", "f8", 1]]],
        [None, None, [], "", [["double *", "O8", True]]], [None, None, [], "", [["f8"]]],
    ],
)  # fmt: skip
def test_a_type_that_nobody_wrote_is_refused(row):
    with pytest.raises((ValueError, TypeError, KeyError)):
        Prototype.of(row)


def test_structs_of_ctypes_and_objects_with_the_members(s):
    class Point(ctypes.Structure):
        _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))

    class Either(ctypes.Union):
        _fields_ = (("i", ctypes.c_int), ("f", ctypes.c_float))

    @dataclass
    class Pair:
        x: float
        y: float

    assert s.call("norm2", Point(3, 4)) == s.call("norm2", Pair(3, 4)) == 25.0
    assert s.call("inner", (Point(1, 0), Pair(0, 2))) == 3.0
    assert s.call("flip", ((ctypes.c_long * 6)(*range(6)),)) == ((5, 4, 3, 2, 1, 0),)
    assert s.call("inner", SimpleNamespace(p=Pair(1, 0), q={"y": 5})) == 6.0
    s["origin"].value = Point(5, 6)
    assert s["origin"].value == (5.0, 6.0)
    s["origin"].value = Point(1, 2)  # as others find it
    s["either"].value = Either(9)
    assert int.from_bytes(s["either"].value[:4], "little") == 9
    with pytest.raises(UsageError, match=r"is a struct \(x, y\)"):
        s.call("norm2", Either(3))
    with pytest.raises(UsageError, match="argument 1, y: a Python str"):
        s.call("norm2", Pair(1, "2"))


UNION = """
union u { int count; float f; struct { short low, high; }; char *text; unsigned bits : 5; };
struct tagged { int tag; union { int i; double d; }; } tagged = {1, {.d = 2.5}};
union u same(union u x) { return x; }
struct tagged next(struct tagged x) { x.tag++; return x; }
"""


def test_members_of_a_union(fresh):
    """What is given is one of them, in a dict as in C's `{.f = 1.5}`; what comes has them all."""
    with fresh() as s:
        s.run(UNION, "c")
        value = s["same"]({"f": 1.5})
        assert value == struct.pack("<fI", 1.5, 0) and value.f == 1.5
        assert (value.count, value.low, value.high, value.bits) == (0x3FC00000, 0, 0x3FC0, 0)
        assert s["same"](value) == value == pickle.loads(pickle.dumps(value))
        assert pickle.loads(pickle.dumps(value)).high == 0x3FC0
        assert s["same"]({"bits": 3}).count == 3 and s["same"]({}).count == 0
        assert s["same"]({"text": "hey"}).text
        assert repr(s["tagged"].value) == "struct(tag=1, f1=union(i=0, d=2.5))"
        assert s["next"]((4, {"i": 7})).f1.i == 7
        s["tagged"].value = {"f1": {"d": 0.5}}
        assert s["tagged"].value.f1.d == 0.5
        s.export_python("half", lambda x: {"f": x.f / 2}, "union u (union u)")
        assert s.run("half((union u){.f = 3}).f", "c").value == 1.5
        assert pickle.loads(pickle.dumps(s["same"]))({"f": 2.5}).f == 2.5
        for wrong in ({"count": 1, "f": 2}, (1,), 1, b"abc"):
            with pytest.raises(UsageError, match=r"is a union, one of count, f, .* in a dict"):
                s["same"](wrong)
        with pytest.raises(UsageError, match="argument 1 has no member 'g'"):
            s["same"]({"g": 1})
        s.run("union v { int _type; char hex; } named_so = {7};", "c")
        assert repr(s["named_so"].value) == "union(_type=7, hex=7)"
        assert pickle.loads(pickle.dumps(s["named_so"].value))._type == 7
        s.check()


def test_bit_fields(s):
    assert s.call("back", (31, 12, -32, 2**33 - 2, True, 5)) == (30, 12, 31, 2**33 - 1, False, 6)
    assert s.call("back", {"day": 1, "year": 7}) == (0, 0, -1, 8, True, 1)
    assert s.call("sign", (-4, 15)) == -385
    with pytest.raises(UsageError, match="argument 1, day: 32 does not fit"):
        s.call("back", {"day": 32})
    s["bits"].value = {"high": 15}
    assert s["bits"].value == (0, 15)
    s["bits"].value = (1, 2)
    back = pickle.loads(pickle.dumps(s["back"]))
    try:
        assert back({"day": 2, "offset": 3}) == (1, 0, 2, 1, True, 1)
    finally:
        arrival._close()


def test_rows_of_text(s):
    assert s.call("swap", ((b"abc", "xyz"),)) == ((b"xbc\0", b"ayz\0"),)
    assert s.call("third", (([1, 2, 3, 4], np.array([5, 6], "i1")),)) == 8
    assert s["table"].value == (
        (b"a\0\0\0\0", b"bc\0\0\0", bytes(5)),
        (b"def\0\0", bytes(5), bytes(5)),
    )
    assert s["table"].array.shape == (2, 3, 5)
    with pytest.raises(UsageError, match="word, element 1 is text of at most 4 bytes"):
        s.call("third", ((b"", b"12345"),))
    with pytest.raises(UsageError, match="element 0, element 1: a Python str cannot be a byte"):
        s.call("third", (([1, "b"], b""),))


def test_what_is_declared_again_is_known_as_before(fresh):
    with fresh() as s:
        s.run(
            "struct p { int x, y; };\nunsigned n = -1;\nunsigned f(struct p a) { return a.x - a.y; }",
            "c",
        )
        s.run("extern unsigned n;\nunsigned f(struct p a);", "c")
        assert s["n"].value == 2**32 - 1 == s.call("f", (1, 2))


def test_a_call_looks_at_the_notes_that_it_needs(fresh, monkeypatch):
    """Thousands of others cost the first one nothing."""
    with fresh() as s:
        s.run("unsigned n;\nunsigned one(void) { return 1; }", "c")
        s.run("unsigned two(void) { return -2; }", "c")
        looked, notes = set(), s.inspect.program.state.notes

        class Looked(dict):
            def __getitem__(self, key):
                looked.add(key)
                return dict.__getitem__(self, key)

            def items(self):
                looked.update(self)
                return dict.items(self)

        monkeypatch.setattr(notes, "found", Looked(notes.found))
        assert s.call("two") == 2**32 - 2 and looked == {"c:i:two"}
        assert (notes.language_of(2), notes.language_of(9)) == ("c", "")


def test_notes_may_come_while_they_are_read():
    """Who reads a variable from another thread waits for no cell."""
    notes = {f"c:i:n{i}": LanguageNote(str(i), cell=1) for i in range(4)}
    texts = NotesSeen(notes, "n2", 2)
    found = iter(texts)
    assert next(found) == "c:i:n0"
    notes["c:i:late"] = LanguageNote("", cell=3)
    assert [*found] == ["c:i:n1", "c:i:n3"]
    assert len(texts) == 4 and "c:i:n2" not in texts and texts["c:i:n3"] == "3"


def test_what_python_is_shown_has_words_of_c(fresh):
    s = fresh()
    s.run(
        "#include <stddef.h>\nstruct pt { int x; double y; };\nint sq(int n) { return n * n; }\n"
        "signed char tiny(signed char n) { return n; }\nint any(int n, ...) { return n; }\n"
        "struct pt made(int x) { return (struct pt){x, 1}; }\nint count = 5, four[4];",
        "c",
    )
    assert repr(s.symbols["sq"]) == "<Symbol int sq(int n) defined>"
    assert repr(s.symbols["four"]) == "<Symbol int four[4] defined>"
    assert repr(s.symbols).startswith("<SymbolTable sq, tiny, any, made, ")
    assert repr(s.find("sq")[0]).startswith("<Cell 1 live: sq, tiny, any, made, ")
    assert repr(s.portable("sq")) == "<sq of another process>"
    assert repr(pickle.loads(pickle.dumps(s.portable("sq")))) == "<sq of another process>"
    for name, arguments, why in (
        ("made", ("a",), "a Python str cannot be int"),
        ("made", (), r"made takes 1 argument \(struct pt made\(int x\)\), 0 given"),
        ("any", (1, 1 << 70), "does not fit long"),
        ("tiny", (1000,), "argument 1: 1000 does not fit signed char"),
        ("absent", (), "^no function absent"),
    ):
        with pytest.raises(UsageError, match=why):
            s.call(name, *arguments)
    handle = s["sq"]
    s.evict("count", force=True)
    with pytest.raises(UsageError, match=r"^sq is not defined any more"):
        handle.address  # noqa: B018


@pytest.mark.parametrize("sign", ["", "unsigned "])
def test_bit_ints_of_any_width(s, sign):
    widths = (7, 33, 64, 65, 127, 128, 129, 192, 200)
    s.run("\n".join(
        f"{sign}_BitInt({n}) add{n}({sign}_BitInt({n}) x, int k, {sign}_BitInt({n}) y)"
        f" {{ return x + y + k; }}\nstruct s{n} {{ char c; {sign}_BitInt({n}) v; }};\n"
        f"{sign}_BitInt({n}) of{n}(struct s{n} p) {{ return p.v; }}\n{sign}_BitInt({n}) g{n};"
        f" struct s{n} m{n};"
        for n in widths
    ), "c")  # fmt: skip
    for n in widths:
        low, high = (0, (1 << n) - 1) if sign else (-1 << n - 1, (1 << n - 1) - 1)
        for _ in range(2):  # the second goes the short way
            assert s[f"add{n}"](high, 0, low) == low + high
            assert s.call(f"add{n}", low, 1, 1) == low + 2
        assert s[f"of{n}"]((1, low + 1)) == low + 1
        for value in (low, high):
            s[f"g{n}"].value, s[f"m{n}"].value = value, (1, value)
            assert s[f"g{n}"].value == value == s[f"m{n}"].value.v
            text = str(value) + "wb" * (not -(1 << 63) <= value < 1 << 64)
            assert s.run(f"g{n}", "c").text == f"({sign}_BitInt({n})) {text}"
            assert s.run(f"m{n}", "c").text.endswith(f".v = {text}}}")
        if n > 64:  # others are passed in a register that has more
            with pytest.raises(UsageError, match="does not fit"):
                s[f"add{n}"](1 << n, 0, 0)
            with pytest.raises(UsageError, match="does not fit"):
                s[f"g{n}"].value = 1 << n


def test_long_doubles_of_numpy_are_what_they_are(s):
    s.run("long double same(long double x) { return x; }\nlong double v;\n"
          "int third(long double x) { return x == 1.0L / 3; }", "c")  # fmt: skip
    third = np.longdouble(1) / 3
    assert s["third"](third) == 1 and s["third"](1 / 3) == 0
    assert s["same"](third) == 1 / 3  # Python's float, rounded
    s["v"].value = third
    assert s["v"].array[()] == third


def test_arrays_of_arrays_are_held_against_a_pointers(s):
    s.run("double sum(int n, double (*a)[3]) { return a[n - 1][2]; }\n"
          "int at(int a[][2][3]) { return a[0][1][2]; }\nint any(int *a) { return *a; }\n"
          "typedef float row[4];\nfloat last(const row *a) { return a[1][3]; }", "c")  # fmt: skip
    assert s["sum"](2, np.ones((2, 3))) == 1 == s["sum"](2, np.ones(6))
    assert s["sum"](4, np.ones((2, 2, 3))) == 1  # rows of 3 as well
    assert s["at"](np.ones((2, 3), "i4")) == 1 == s["at"](np.ones((5, 2, 3), "i4"))
    assert s["any"](np.ones((4, 5), "i4")) == 1
    assert s["last"](np.ones((2, 4), "f4")) == 1
    for name, array, sides in (
        ("sum", np.ones((3, 2)), r"\(n, 3\)"), ("sum", np.ones((2, 3), "f4"), r"\(n, 3\)"),
        ("at", np.ones((1, 3, 2), "i4"), r"\(n, 2, 3\)"), ("last", np.ones((4, 2), "f4"), r"\(n, 4\)"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"leads to arrays of shape .* {sides} fits"):
            s[name](*([2] if name == "sum" else []), array)
