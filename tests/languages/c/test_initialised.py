"""Variables of C as Python has them, whatever their initialisers are: their types and values are
those that ctypes gives the same declaration."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import LinkError

np = pytest.importorskip("numpy")

NUMBERS: dict[str, Any] = {
    "signed char": ctypes.c_byte, "unsigned char": ctypes.c_ubyte, "short": ctypes.c_short,
    "unsigned short": ctypes.c_ushort, "int": ctypes.c_int, "unsigned": ctypes.c_uint,
    "long": ctypes.c_long, "unsigned long long": ctypes.c_ulonglong, "float": ctypes.c_float,
    "double": ctypes.c_double, "_Bool": ctypes.c_bool,
}  # fmt: skip


class Maker:
    """Types with the C that declares them, and initialisers with what they mean."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.structs: dict[str, Any] = {}
        self.cells: list[str] = []

    def type(self, depth: int = 0) -> tuple[str, Any, str]:
        """What stands before a name, ctypes' type, and what stands behind."""
        kind = self.random.choice(["number"] * 3 + ["array"] * 4 + ["struct"] * (depth < 2))
        if kind == "array":
            head, of, tail = self.type(depth + 1)
            count = self.random.choice([1, 2, 3, 9, 17, 40, 130])
            if ctypes.sizeof(of) * count > 20000:
                count = 2
            return head, of * count, f"[{count}]{tail}"
        if kind == "struct":
            return self.struct(depth), self.structs[f"s{len(self.structs) - 1}"], ""
        name = self.random.choice(list(NUMBERS))
        return name, NUMBERS[name], ""

    def struct(self, depth: int) -> str:
        members = [self.type(depth + 1) for _ in range(self.random.randint(1, 3))]
        name = f"s{len(self.structs)}"
        fields = [(f"m{i}", of) for i, (_, of, _) in enumerate(members)]
        self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        text = " ".join(f"{head} m{i}{tail};" for i, (head, _, tail) in enumerate(members))
        self.cells.append(f"struct {name} {{ {text} }};")
        return f"struct {name}"

    def value(self, of: Any) -> tuple[str, Any]:
        """An initialiser, which may be short, and an object that has its value."""
        made = of()
        if issubclass(of, ctypes.Array):
            texts = []
            for at, stands in self._places(of._length_):
                text, value = self.value(of._type_)
                texts.append(f"[{at}] = {text}" if stands else text)
                made[at] = value.value if isinstance(value, ctypes._SimpleCData) else value
            return "{" + ", ".join(texts) + "}", made
        if issubclass(of, ctypes.Structure):
            texts = []
            for at, stands in self._places(len(of._fields_)):
                name, kind, *_ = of._fields_[at]
                text, value = self.value(kind)
                texts.append(f".{name} = {text}" if stands else text)
                plain = isinstance(value, ctypes._SimpleCData)
                setattr(made, name, value.value if plain else value)
            return "{" + ", ".join(texts) + "}", made
        number = self.random.choice([0, 1, 7, 100])
        return str(number), of(number)

    def _places(self, count: int) -> list[tuple[int, bool]]:
        """Which elements have values, in order, and which of them are named."""
        found, at = [], 0
        while at < count and len(found) < 5 and (not found or self.random.random() < 0.7):
            skipped = self.random.random() < 0.2
            at = self.random.randrange(at, count) if skipped else at
            found.append((at, skipped))
            at += 1
        return found


def sides(dtype: Any) -> tuple[Any, tuple[int, ...]]:
    """The elements' type and the sides of an array, of arrays too."""
    shape: tuple[int, ...] = ()
    while dtype.subdtype:
        shape += dtype.shape
        dtype = dtype.base
    return dtype, shape


def same_type(found: Any, wanted: Any) -> bool:
    """Whether two dtypes lie alike, with the same names."""
    (found, shape), (wanted, other) = sides(found), sides(wanted)
    if shape != other:
        return False
    if wanted.names is None:
        return bool(found == wanted)
    places = [(n, wanted.fields[n][1]) for n in wanted.names]
    return (
        found.itemsize == wanted.itemsize
        and places == [(n, found.fields[n][1]) for n in found.names or ()]
        and all(same_type(found[n], wanted[n]) for n in wanted.names)
    )


def plain(value: Any) -> Any:
    """An object of ctypes as tuples and numbers."""
    if isinstance(value, ctypes.Array):
        return tuple(plain(v) for v in value)
    if isinstance(value, ctypes.Structure):
        return tuple(plain(getattr(value, field[0])) for field in value._fields_)
    return getattr(value, "value", value)


def declared(seed: int, many: int) -> tuple[Maker, list[tuple[str, Any]]]:
    maker = Maker(seed)
    found = []
    for number in range(many):
        head, of, tail = maker.type()
        text, value = maker.value(of)
        local = maker.random.choice(["", "", "", "const ", "_Thread_local "])
        if not text.startswith("{"):
            text = f"{{{text}}}"
        maker.cells.append(f"{local}{head} v{number}{tail} = {text};")
        found.append((f"v{number}", value))
    return maker, found


def check(s: Session, seed: int, many: int) -> None:
    maker, found = declared(seed, many)
    s.run("\n".join(maker.cells), "c")
    for name, value in found:
        text = next(c for c in maker.cells if f" {name}[" in c or f" {name} =" in c)
        wanted = np.dtype(type(value))
        if not text.startswith("_Thread_local"):
            view = s[name].array
            dtype = np.dtype((view.dtype, view.shape)) if view.shape else view.dtype
            assert same_type(dtype, wanted), (seed, text, dtype, wanted)
            assert view.tobytes() == bytes(value), (seed, text)
        assert s[name].value == plain(value), (seed, text)
        if "const" not in text:
            s[name].value = s[name].value
            assert s[name].value == plain(value), (seed, text)


@pytest.mark.parametrize("seed", range(3))
def test_variables_are_what_ctypes_makes_of_their_declarations(s: Session, seed: int) -> None:
    check(s, seed, 40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_variables_are_what_ctypes_makes_of_their_declarations(s: Session, seed: int) -> None:
    check(s, seed, 100)


def test_an_array_with_a_short_initialiser_is_one(s: Session) -> None:
    s.run("int big[400] = {1}; int m[30][30] = {{1}}; int f[100] = {[3] = 1};\n"
          "int rows[2][40] = {{1}, {2}}; long deep[1][2][9] = {{{1}, {7, 8}}};\n"
          "int sum(const int *p, int n) { int t = 0; while (n--) t += *p++; return t; }",
          "c")  # fmt: skip
    assert s.symbols["big"].type == "[400 x i32]"
    assert s["m"].array.shape == (30, 30)
    assert s.symbols["rows"].type == "[2 x [40 x i32]]"
    assert s.symbols["deep"].type == "[1 x [2 x [9 x i64]]]"
    s["big"].array[:] = 5
    assert s["sum"](s["big"], 400) == 2000
    s["big"].value = range(400)
    assert s["sum"](s["big"], 400) == 79800
    assert s["f"].value[3:5] == (1, 0)


def test_another_initialiser_is_no_other_type(s: Session) -> None:
    s.run("int b[40] = {1};", "c")
    s.run("int at(int i) { return b[i]; }", "c")
    before = s["b"].address
    for text in ("{1, 2}", "{[7] = 3}", "{}"):
        s.run(f"int b[40] = {text};", "c")
        assert (s["b"].address, s["b"].array.shape) == (before, (40,))
    s.undo()
    assert s["at"](7) == 3
    s.check()


def test_a_variable_that_is_longer_now_moves(s: Session) -> None:
    """A flexible array member's elements are no part of its variable's type (C11 6.7.2.1)."""
    text = "struct s {{ int n; int d[]; }}; struct s v = {{ {} }}; int behind = 77;"
    s.run(text.format("3, {6, 7, 8}"), "c", cell_id="it")
    s.run("int last(void) { return v.d[v.n - 1] + behind; }", "c")
    assert s.call("last") == 85
    s.run(text.format("5, {1, 2, 3, 4, 5}"), "c", cell_id="it")
    assert s.call("last") == 82 and s.read(s["v"].address, 24) == bytes(
        b for n in (5, 1, 2, 3, 4, 5) for b in (n, 0, 0, 0)
    )
    s.undo()
    assert s.call("last") == 85
    s.redo()
    assert s.call("last") == 82
    pytest.importorskip("numpy")
    assert s["v"].array["n"] == 5
    s.check()


@pytest.mark.parametrize("text", ["int t;\nint t = 54;\nextern int t;", "int t = 54; int t;"])
def test_one_declaration_of_several_gives_the_value(s: Session, text: str) -> None:
    s.run("int t = 19;", "c")
    s.run("int get(void) { return t; }", "c")
    s.run("int t; int t;", "c")
    assert s.call("get") == 19
    s.run(text, "c")
    assert s.call("get") == 54


@pytest.mark.parametrize("words", ["", "__weak__, used", "aligned(4), weak"])
def test_a_weak_variable_that_nobody_defines_is_nowhere(s: Session, words: str) -> None:
    s.run(
        f"extern int no __attribute__(({words or 'weak'}));\n"
        "int there(void) { return &no ? no : -1; }", "c"
    )  # fmt: skip
    assert s.call("there") == -1
    s.run("int no = 5;", "c")
    assert s.call("there") == 5


def test_the_type_stays_when_the_session_is_saved(tmp_path) -> None:
    with Session() as s:
        s.run("int b[40] = {1};", "c")
        s.run("int at(int i) { return b[i]; }", "c")
        s.save(tmp_path / "s.jks")
    with Session.restore(tmp_path / "s.jks") as s:
        assert s["b"].array.shape == (40,)
        s.run("typedef int other;\nother b[40] = {[2] = 9};", "c")
        assert s["b"].array.shape == (40,) and s["at"](2) == 9


def test_bounds_of_a_section_are_those_of_its_cell(s: Session) -> None:
    """They get no storage, and nobody else takes the body that names them."""
    text = (
        '__attribute__((section("table"), used)) static int a = {}, b = 2;\n'
        "extern int __start_table[], __stop_table[];\n"
        "int sum(void) {{ int n = 0; for (int *p = __start_table; p < __stop_table; p++) n += *p;"
        " return n; }}"
    )
    s.run(text.format(34), "c", cell_id="it")
    s.run("int user(void) { return sum(); }", "c")
    assert s.call("user") == 36
    s.run(text.format(57), "c", cell_id="it")
    assert s.call("user") == 59 and len(s.cells) == 2
    s.undo()
    assert s.call("user") == 36
    s.run("int more(void) { return 1; }", "c")
    s.run(text.format(57).replace("int n = 0", "int n = more()"), "c", cell_id="it")
    s.run("int more(void) { return 2; }", "c")
    assert s.call("user") == 61
    with pytest.raises(
        LinkError, match=r"__start_table.* bounds section table of its own cell: put"
    ):
        s.run(text.partition("\n")[2].format().replace("sum", "apart"), "c")
    s.check()
