"""What C says of a function's pointers is held against the arrays that Python gives."""

from __future__ import annotations

import array
import ctypes
import mmap
from types import SimpleNamespace

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.languages import registry as languages
from jitkernel.languages.c import prototypes
from jitkernel.languages.c.prototypes import prototype
from jitkernel.languages.c.prototypes import type_of as ask
from jitkernel.languages.prototypes import code_of_elements

np = pytest.importorskip("numpy")
pytest.importorskip("ziglang")


@pytest.fixture
def s(shared):
    shared.reset()
    return shared


SUM = "double sum(const double *restrict x, long n) {\n  double r = 0;\n  for (long i = 0; i < n; i++) r += x[i];\n  return r;\n}"


def test_elements_of_another_type_are_refused(s):
    s.run(SUM, language="c")
    numbers = np.arange(4.0)
    assert s["sum"](numbers, 4) == 6.0
    for _ in range(2):  # calls of before have taught the way to go
        with pytest.raises(UsageError) as caught:
            s["sum"](np.arange(4, dtype="f4"), 4)
        assert str(caught.value) == (
            "argument 1 of sum is const double *, and an array of float32 is given: "
            "array.astype('float64') gives one that fits"
        )
        assert s["sum"](s.share(numbers), 4) == 6.0
    with pytest.raises(UsageError, match=r"an array of >f8 is given"):
        s["sum"](np.arange(4, dtype=">f8"), 4)
    with pytest.raises(UsageError, match=r"an array of uint8 is given"):
        s["sum"](numbers.view("u1"), 4)


def test_plain_bytes_and_addresses_may_be_anything(s):
    s.run(SUM, language="c")
    data = array.array("d", [1, 2])
    assert s["sum"](data, 2) == s["sum"](bytearray(data.tobytes()), 2) == 3.0
    assert s["sum"](data.tobytes(), 2) == 3.0
    kept = s.share(np.ones(3))
    assert s["sum"](kept.ctypes.data, 3) == 3.0


def test_pythons_own_arrays_and_those_of_ctypes_say_what_they_hold(s):
    s.run(SUM, language="c")
    s.run("void half(double *out) { *out = 0.5; }", language="c")
    for _ in range(2):  # calls of before have taught the way to go
        for other in (
            array.array("f", [1, 2]),
            (ctypes.c_float * 2)(),
            memoryview(array.array("f", [1])),
        ):
            with pytest.raises(
                UsageError, match="an array of float32 is given: one of float64 fits"
            ):
                s["sum"](other, 1)
        with pytest.raises(UsageError, match="an array of int64 is given"):
            s["sum"](ctypes.pointer(ctypes.c_long(1)), 1)
        with pytest.raises(UsageError, match="float64, bytes swapped"):
            s["sum"]((ctypes.c_double.__ctype_be__ * 1)(), 1)
        with pytest.raises(UsageError, match="an array of float32 is given"):
            s["half"](ctypes.c_float())  # four bytes, and eight would be written
        assert s["sum"]((ctypes.c_double * 2)(1, 2), 2) == 3.0
        assert s["sum"](memoryview(array.array("d", [1, 2])), 2) == 3.0
        assert s["sum"](memoryview(bytes(16)), 2) == s["sum"](array.array("b", bytes(16)), 2) == 0.0
        s["half"](out := ctypes.c_double())
        assert out.value == 0.5


def test_an_array_of_numbers_is_none_of_pointers(s):
    s.run(
        "double rows(double **m, int n) { double t = 0; while (n--) t += m[n][0]; return t; }",
        language="c",
    )
    for other in (np.ones((2, 2)), np.array([b"abc"]), array.array("d", [1])):
        with pytest.raises(UsageError, match=r"is double \*\*, and an array of .* addresses fit"):
            s["rows"](other, 1)
    kept = s.array((2, 2))
    kept[:] = 3
    assert s["rows"](np.array([row.ctypes.data for row in kept]), 2) == 6.0


STRUCT = "struct pt { double x; int k; };"
PSUM = "double psum(const struct pt *p, long n) { double t = 0; while (n--) { t += p->x * p->k; p++; } return t; }"


def test_records_lie_as_structs_do(s):
    """numpy's have no padding unless they are asked to."""
    s.run(STRUCT, language="c")
    s.run(PSUM, language="c")
    members = [("x", "f8"), ("k", "i4")]
    values = [(1.5, 2), (2.5, 4)]
    packed, aligned = np.array(values, members), np.array(values, np.dtype(members, align=True))
    for _ in range(2):
        assert s["psum"](aligned, 2) == s["psum"](aligned.view(np.recarray), 2) == 13.0
        with pytest.raises(UsageError) as caught:
            s["psum"](packed, 2)
        assert str(caught.value) == (
            "argument 1 of psum leads to structs of 16 bytes (float64 x at 0, int32 k at 8), and an "
            "array of records of 12 (float64 x at 0, int32 k at 8) is given: "
            "array.astype(numpy.dtype(array.dtype.descr, align=True)) gives one that fits"
        )
        assert s["psum"](packed.astype(np.dtype(packed.dtype.descr, align=True)), 2) == 13.0
        for other in (
            [("k", "i4"), ("x", "f8")],
            [("x", "f4"), ("k", "i4")],
            [("x", "i8"), ("k", "i4")],
        ):
            with pytest.raises(UsageError, match="leads to structs of 16 bytes"):
                s["psum"](np.zeros(2, np.dtype(other, align=True)), 2)
        assert s["psum"](np.zeros(2, [*members, ("unused", "V4")]), 2) == 0.0
        assert s["psum"](np.zeros((2, 2)), 2) == 0.0  # numbers may be what the members are
    s.run("struct pt { double x; int k; } __attribute__((packed));", language="c")
    assert s["psum"](packed, 2) == 13.0
    with pytest.raises(UsageError, match="leads to structs of 12 bytes"):
        s["psum"](aligned, 2)


def test_clang_is_asked_for_structs_once_and_where_records_are_given(s, monkeypatch):
    asked = []
    monkeypatch.setattr(
        prototypes, "type_of", lambda name, *rest: asked.append(name) or ask(name, *rest)
    )
    s.run(STRUCT, language="c")
    s.run(PSUM.replace("psum(", "two(struct pt *q, "), language="c")
    data = np.zeros(2, np.dtype([("x", "f8"), ("k", "i4")], align=True))
    s["two"](bytearray(32), bytes(32), 2)
    assert not asked
    for _ in range(2):
        s["two"](data, data, 2)
    assert asked == ["two"]
    s.run(STRUCT.replace("int", "long"), language="c")
    with pytest.raises(UsageError, match="int64 k at 8"):
        s["two"](data, data, 2)


def test_members_that_are_structs_texts_unions_and_pointers(s):
    s.run(STRUCT, language="c")
    s.run(
        "typedef struct { char name[8]; struct pt p[2]; union { int a; float b; } u; void *q; } all;",
        language="c",
    )
    s.run("double get(all *a) { return a->p[1].x; }", language="c")
    point = np.dtype([("x", "f8"), ("k", "i4")], align=True)
    parts = [("name", "S8"), ("p", point, 2), ("u", "i4"), ("q", "u8")]
    data = np.zeros(1, np.dtype(parts, align=True))
    data["p"]["x"][0, 1] = 2.5
    assert s["get"](data) == s["get"](data.view("V56")) == 2.5
    parts[1] = ("p", np.dtype([("x", "f8"), ("k", "i4")]), 2)
    with pytest.raises(UsageError, match="leads to structs of 56 bytes"):
        s["get"](np.zeros(1, np.dtype(parts, align=True)))
    s.run("int opaque(struct unknown *p) { return p != 0; }", language="c")
    assert s["opaque"](data) == 1


def test_a_buffer_that_is_gone(s):
    s.run(SUM, language="c")
    released, closed = memoryview(bytearray(16)), mmap.mmap(-1, 16)
    released.release()
    closed.close()
    for gone, why in ((released, "released memoryview"), (closed, "mmap closed")):
        for _ in range(2):
            with pytest.raises(UsageError, match=rf"argument 1: .*{why}"):
                s["sum"](gone, 2)
            assert s["sum"](bytearray(16), 2) == 0.0


def test_what_can_become_an_array_is_told_so(s):
    s.run(SUM, language="c")

    class Column:
        def __array__(self, dtype=None, copy=None):
            return np.ones(2)

    with pytest.raises(
        UsageError, match=r"cannot be const double \*restrict; numpy\.asarray makes an array of it"
    ):
        s["sum"](Column(), 2)


def test_what_is_const_is_not_copied_back(s):
    s.run(
        "int look(const int *p) { int x = p[0]; *(int *)p = 9; return x; }\n"
        "int take(int *p) { int x = p[0]; *p = 9; return x; }",
        language="c",
    )
    numbers = np.array([1], "i4")
    if s.settings.executor == "process":  # inline, there is no copy
        assert (s["look"](numbers), numbers[0]) == (1, 1)
    assert (s["take"](numbers), numbers[0]) == (1, 9)


def test_a_sign_is_the_functions_business(s):
    s.run("unsigned first(unsigned *p) { return p[0]; }", language="c")
    assert s["first"](np.array([7], dtype="i4")) == 7
    with pytest.raises(UsageError, match=r"is unsigned \*, and an array of int64"):
        s["first"](np.array([7]))


def test_what_a_definition_says_goes_with_it(s):
    """Another definition, of C's or IR's, a type that has changed, undo: always the present one."""
    s.run("typedef double real;", language="c")
    s.run("real one(real *p) { return p[0]; }", language="c")
    doubles, floats = np.array([2.0]), np.array([2.0], dtype="f4")
    assert s["one"](doubles) == 2.0
    s.run("typedef float real;", language="c")
    assert s["one"](floats) == 2.0
    with pytest.raises(UsageError, match=r"is real \*, and an array of float64"):
        s["one"](doubles)
    s.undo()
    assert s["one"](doubles) == 2.0
    with pytest.raises(UsageError, match="float32"):
        s["one"](floats)
    s.run("define double @one(ptr %p) {\n  ret double 5.0\n}")
    assert s["one"](floats) == 5.0  # IR says nothing of pointers


def test_restored(tmp_path):
    with Session() as s:
        s.run(SUM, language="c")
        s.save(str(tmp_path / "a.jks"))
    with Session.restore(str(tmp_path / "a.jks")) as s:
        with pytest.raises(UsageError, match="float32"):
            s["sum"](np.zeros(2, "f4"), 2)
        assert s["sum"](np.ones(2), 2) == 2.0


def test_only_the_language_of_a_functions_cell_is_asked(s, monkeypatch):
    """Others are not even loaded."""
    s.run(SUM, language="c")
    s.run("define i64 @size(ptr %p, i64 %n) {\n  ret i64 %n\n}")
    asked = []
    monkeypatch.setattr(
        "jitkernel.session.run.prototypes.find",
        lambda name: asked.append(name) or languages.find(name),
    )
    assert s["size"](np.arange(4, dtype="f4"), 4) == 4 and not asked
    assert s["sum"](np.ones(2), 2) == 2.0 and asked == ["c"]


@pytest.mark.parametrize(
    ("parameter", "code"),
    [
        ("double *x", "f8"), ("double x[]", "f8"), ("double x[static 4]", "f8"), ("double m[3][4]", "f8"),
        ("const float *const restrict x", "f4"), ("float const *", "f4"), ("long double *x", "f16"),
        ("double _Complex *z", "c16"), ("unsigned long long int *x", "u8"), ("short *x", "i2"),
        ("int long unsigned *x", "u8"), ("_Bool *x", "b1"), ("int32_t *x", "i4"), ("size_t *x", "u8"),
        ("signed *x", "i4"), ("void *x", ""), ("char *x", ""), ("unsigned char *x", ""),
        ("double **x", "u8"), ("double *x[]", "u8"), ("char **x", "u8"), ("struct s *x[2]", "u8"), ("double (*f)(int)", ""), ("double (*m)[4]", ""),
        ("struct s { int a; } *x", ""), ("struct s *x", ""), ("enum e *x", ""), ("double x", ""),
        ("T *x", ""), ("real *x", "f8"), ("real x", ""), ("vector x", ""), ("odd *x", ""),
        ("__attribute__((noescape)) double *x", "f8"), ("register double *x", "f8"),
        ("typeof(1.0) *x", ""), ("...", ""), ("", ""),
    ],
)  # fmt: skip
def test_what_parameters_say(parameter, code):
    from jitkernel.languages.c.notes import Note

    texts = {
        "f": ("function", f"static inline int *f(int a, {parameter}) __attribute__((nothrow));"),
        "real": ("typedef", "typedef const double real;"),
        "vector": ("typedef", "typedef double *vector;"),
        "odd": ("typedef", "typedef double odd[3];"),
    }
    notes = {f"c:i:{n}": Note(f"c:i:{n}", k, t, 1, 0).encode() for n, (k, t) in texts.items()}
    known = SimpleNamespace(notes=notes, setting=lambda name: "")
    found = prototype("f", known)
    codes = [code_of_elements(p) if p else "" for p in found.pointees] if found is not None else []
    assert codes == (["", code] if code else [])
    assert prototype("real", known) is prototype("g", known) is None
