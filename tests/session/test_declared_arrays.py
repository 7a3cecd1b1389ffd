"""Declarations of array parameters on the Python side."""

from __future__ import annotations

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError

np = pytest.importorskip("numpy")

CELL = """
define i64 @mix(ptr %a, i64 %n, ptr %b, i64 %m, double %x) {
  %r = mul i64 %n, %m
  ret i64 %r
}
"""


@pytest.fixture(scope="module")
def mix():
    with Session() as s:
        s.run(CELL)
        yield s["mix"].arrays("double[n, m], n, int[m], m, x")


def test_numbers_that_arrays_tell_may_be_left_out(mix):
    a, b = np.zeros((3, 4)), np.zeros(4, "i4")
    assert mix(a, 3, b, 4, 0.5) == 12 == mix(a, b, 0.5)
    assert mix(np.zeros((0, 4)), b, 1.0) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((3, 4), "f4"), np.zeros(4, "i4"), 1.0), "double.n, m., and an array of float32"),
        ((np.zeros(12), np.zeros(4, "i4"), 1.0), r"shape \(12,\)"),
        ((np.zeros((3, 4)), np.zeros(5, "i4"), 1.0), "m is 4 and 5"),
        ((np.zeros((3, 4)), 2, np.zeros(4, "i4"), 4, 1.0), "n is 3 and 2"),
        ((np.zeros((4, 3)).T, np.zeros(4, "i4"), 1.0), "lies column by column"),
        ((np.zeros((3, 4)), 1.0), "takes 5 arguments"),
        ((np.zeros((3, 4)), 3, np.zeros(4, "i4"), 1.0), "takes 5 arguments"),
    ],
)
def test_what_does_not_fit(mix, arguments, words):
    with pytest.raises(UsageError, match=words):
        mix(*arguments)


def test_sides(mix):
    handle = mix._session["mix"]
    fixed = handle.arrays("f8[3, :], n, i4[:], m, x")
    assert fixed(np.zeros((3, 9)), 3, np.zeros(2, "i4"), 5, 1) == 15
    with pytest.raises(UsageError, match="shape"):
        fixed(np.zeros((2, 9)), 3, np.zeros(2, "i4"), 5, 1)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("double, f8, float64", "f8"), ("float, f4", "f4"), ("half, _Float16, f2", "f2"),
        ("int, i32, int32_t, signed int, i4", "i4"), ("unsigned, unsigned int, uint32_t", "u4"),
        ("long, long int, long long, i64, int64_t, ssize_t", "i8"),
        ("unsigned long, long unsigned int, size_t, uint64", "u8"), ("i8, char, int8_t", "i1"),
        ("unsigned char, uint8_t, u1", "u1"), ("short, i16, short int", "i2"), ("bool, _Bool", "?"),
        ("long double", "f16"), ("double _Complex", "c16"),
    ],
)  # fmt: skip
def test_types_have_names_of_c_llvm_and_numpy(names, code):
    from jitkernel.session.array_types import ArraySignature

    for name in names.split(", "):
        ArraySignature(f"{name}[:]").check("@f", [np.zeros(2, code)])
        with pytest.raises(UsageError, match="an array of "):
            ArraySignature(f"{name}[:]").check("@f", [np.zeros(2, "i4" if code != "i4" else "u4")])


@pytest.mark.parametrize("bad", ["", "double[", "nonsense[n]", "double[n+1]", "3", "double[n] n"])
def test_what_cannot_be_read(mix, bad):
    with pytest.raises(UsageError):
        mix._session["mix"].arrays(bad)
