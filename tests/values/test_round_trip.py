"""Every type goes around: LLVM's to C, by clang's debug information back, to numpy, to Python and to
bytes; all of them agree on where the parts lie and what they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jitkernel import Session
from jitkernel.ir.types import parse_type
from jitkernel.languages.c.clang import clang_of
from jitkernel.languages.c.module import parse
from jitkernel.session.arrays import dtype_of, of_dtype
from jitkernel.session.run.host import SessionView
from jitkernel.values.c import declare, type_in_c
from jitkernel.values.conversion import to_bytes
from jitkernel.values.datatype import DataType, plain
from jitkernel.values.debug_info import Types
from jitkernel.values.ir import data_type, ir_type
from jitkernel.values.python import to_python
from jitkernel.values.rows import read_type, row_of
from jitkernel.values.value import TypedValue

np = pytest.importorskip("numpy")
pytest.importorskip("ziglang")

SCALARS = ("i1", "i8", "i16", "i32", "i64", "i128", "half", "float", "double", "x86_fp80", "ptr")
TYPES = st.recursive(
    st.sampled_from([*SCALARS, "<4 x float>", "<16 x i8>", "<2 x i64>"]),
    lambda inner: (
        st.builds("[{} x {}]".format, st.integers(1, 4), inner)
        | st.lists(inner, min_size=1, max_size=4).map(lambda of: f"{{ {', '.join(of)} }}")
        | st.lists(inner, min_size=1, max_size=4).map(lambda of: f"<{{ {', '.join(of)} }}>")
    ),
    max_leaves=8,
)


class Host:
    """A program in which nothing is."""

    def shared(self, thing: object) -> int:
        return 0


def in_c(type: DataType, name: str) -> str:
    """A type of LLVM's around a name, structs with their members."""
    if type.kind == "struct":
        inside = " ".join(f"{in_c(m.type, f'm{i}')};" for i, m in enumerate(type.members))
        packed = " __attribute__((packed))" * type.packed
        return f"struct{packed} {{ {inside} }} {name}"
    if type.kind == "array":
        return in_c(type.part(0), f"{name}[{type.count}]")
    return type_in_c(parse_type(type.name), name)


def same(one: DataType, other: DataType) -> bool:
    """True if two types have the same parts at the same places; signs and names are C's."""
    kinds = {one.kind, other.kind}
    if one.size != other.size or (len(kinds) > 1 and kinds != {"int", "bool"}):
        return False
    if one.kind in ("array", "vector"):
        return one.count == other.count and same(one.part(0), other.part(0))
    offsets = [[member.offset for member in type.members] for type in (one, other)]
    inner = zip(one.members, other.members, strict=True) if offsets[0] == offsets[1] else ()
    return offsets[0] == offsets[1] and all(same(a.type, b.type) for a, b in inner)


def shown(value: Any) -> str:
    """A value as nested tuples, text as numbers, so that what has no name is like what has one."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    return repr(int(value) if isinstance(value, int) else value)


def has_raw(dtype: Any) -> bool:
    """True if numpy sees only bytes somewhere: it has no integers of 128 bits."""
    if dtype.names:
        return any(has_raw(dtype[name]) for name in dtype.names)
    return bool(dtype.base.kind == "V" if not dtype.base.names else has_raw(dtype.base))


def has_wide(type: DataType) -> bool:
    """True of what Python's floats do not hold wholly."""
    parts = [*(m.type for m in type.members), *filter(None, [type.element])]
    return type.bits == 80 or any(map(has_wide, parts))


@pytest.fixture(scope="module")
def types_of() -> Iterator[Callable[[str], Types]]:
    """The types that clang's debug information has of a text."""
    with Session(spare=False) as session:
        view = SessionView(session._core)
        clang = clang_of(view.setting)
        yield lambda source: Types(parse(clang.compile(source).text).metadata)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TYPES, min_size=1, max_size=12), st.integers(0, 1 << 32))
def test_every_type_goes_around(
    types_of: Callable[[str], Types], texts: list[str], seed: int
) -> None:
    order = random.Random(seed)
    own = [data_type(text) for text in texts]
    lines = [f"{in_c(type, f'v{i}')};" for i, type in enumerate(own)]
    found = types_of("\n".join(lines))
    for index, (text, ours) in enumerate(zip(texts, own, strict=True)):
        full = found.variable(f"v{index}")
        assert full is not None
        theirs = plain(full)
        assert same(ours, theirs), text
        if "struct" not in lines[index]:
            assert (
                f"{declare(full, f'v{index}')};".split() == lines[index].replace("* ", "*").split()
            )
        # as a row
        again = read_type(row_of(theirs))
        assert row_of(again) == row_of(theirs) and same(again, theirs)
        # bytes, Python, bytes
        value = to_python(theirs, order.randbytes(ours.size))
        if "nan" in shown(value):
            continue
        data = to_bytes(theirs, value, Host(), text)
        assert len(data) == ours.size
        assert shown(to_python(theirs, data)) == shown(value)
        assert shown(to_python(again, data)) == shown(value)
        unsigned = shown(to_python(ours, data))
        assert (
            unsigned == shown(value) and to_bytes(ours, to_python(ours, data), Host(), "") == data
        )
        # numpy
        dtype = dtype_of(theirs)
        assert dtype.itemsize == ours.size
        assert dtype_of(ours).itemsize == ours.size
        assert dtype_of(of_dtype(dtype)) == dtype
        if not has_raw(dtype) and not has_wide(theirs):
            element = np.frombuffer(data, dtype.base).reshape(dtype.shape)
            given_back = element if dtype.shape else element[()]
            assert to_bytes(theirs, given_back, Host(), text) == data
        # LLVM's words for it, and the value in them
        type_ = ir_type(theirs)
        assert data_type(str(type_)).size == ours.size
        named = TypedValue(parse_type(text), data, lambda one: data_type(str(one)))
        assert named.text().startswith(text) and shown(named.python) == unsigned
