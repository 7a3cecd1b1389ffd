"""The thunk that signatures of numbers and pointers share, against LLVM's own of each."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from jitkernel import Session
from jitkernel.executor.passing import BLOCKS, passed, returned
from jitkernel.executor.runtime import built
from jitkernel.session.run import thunks

_INTEGERS = {"i1": 1, "i7": 7, "i8": 8, "i16": 16, "i32": 32, "i33": 33, "i64": 64}
_MOST = 20


class _Function(NamedTuple):
    """A function that stores its arguments in `@seen`, 8 bytes each, and returns one of them, or
    nothing."""

    name: str
    ir: str
    values: tuple[Any, ...]
    seen: bytes


def _value(rng: random.Random, type: str) -> Any:
    if type in ("float", "double"):
        return rng.randrange(-(1 << 20), 1 << 20) / 64
    if type == "ptr":
        return rng.randrange(1 << 47)
    bits = _INTEGERS[type]
    return bool(rng.randrange(2)) if bits == 1 else rng.randrange(-1 << bits - 1, 1 << bits - 1)


def _function(rng: random.Random, number: int) -> _Function:
    types = rng.choices([*_INTEGERS, "ptr", "float", "double"], k=rng.randrange(_MOST + 1))
    values = tuple(_value(rng, type) for type in types)
    body, parameters, seen = [], [], b""
    extensions = rng.choice((("",), ("", "zeroext"), ("", "zeroext", "signext")))
    for i, (type, value) in enumerate(zip(types, values, strict=True)):
        extension = ""
        stored = f"{type} %a{i}"
        if type == "float":
            seen += struct.pack("<f4x", value)
        elif type == "double":
            seen += struct.pack("<d", value)
        elif type in _INTEGERS and _INTEGERS[type] < 64:
            # What the caller has extended, the callee takes for extended.
            extension = rng.choice(extensions)
            sign = {"signext": 1, "zeroext": 0}.get(extension, rng.randrange(2))
            body.append(f"  %x{i} = {'sext' if sign else 'zext'} {type} %a{i} to i64")
            stored = f"i64 %x{i}"
            bits = int(value) & (1 << _INTEGERS[type]) - 1
            signed = -bits if _INTEGERS[type] == 1 else int(value)
            seen += (signed if sign else bits).to_bytes(8, "little", signed=bool(sign))
        else:
            seen += (value & (1 << 64) - 1).to_bytes(8, "little")
        parameters.append(f"{type} {extension} %a{i}")
        body.append(f"  %p{i} = getelementptr i64, ptr @seen, i64 {i}")
        body.append(f"  store {stored}, ptr %p{i}")
    given = rng.choice([*range(len(types)), None])
    result, returns = "void", "void"
    if given is not None:
        result = types[given]
        returns = f"{result} %a{given}"
        if result in _INTEGERS and _INTEGERS[result] < 64:
            result = rng.choice(("", "zeroext ", "signext ")) + result
    lines = "\n".join([*body, f"  ret {returns}"])
    name = f"f{number}"
    head = f"define {result} @{name}({', '.join(parameters)})"
    return _Function(name, f"{head} {{\n{lines}\n}}", values, seen)


@pytest.fixture(params=["process", "inline"])
def s(request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session(executor=request.param, capacity=64 << 20, spare=False) as session:
        yield session


def _use_llvms(s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each signature has a thunk of its own."""
    known = s.inspect.engine.thunks._thunks
    for key in [key for key, thunk in known.items() if thunk.image is None]:
        del known[key]
    monkeypatch.setattr(thunks, "passed", lambda types, attributes: None)


def _called(s: Session, functions: list[_Function]) -> list[Any]:
    """The results, and what was seen: of first calls, and of those that follow."""
    found = []
    for name, _, values, seen in functions * 2:
        s["seen"].value = [0] * _MOST
        result = s.call(name, *values)
        now = b"".join(word.to_bytes(8, "little", signed=word < 0) for word in s["seen"].value)
        assert now[: len(seen)] == seen, name
        found.append(result if result is None else getattr(result, "address", result))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_it_hands_on_what_a_thunk_of_the_signature_would(
    s: Session, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    functions = [_function(rng, number) for number in range(24)]
    s.run(f"@seen = global [{_MOST} x i64] zeroinitializer")
    s.run("\n".join(f.ir for f in functions))
    results = _called(s, functions)
    shared = [thunk for thunk in s.inspect.engine.thunks._thunks.values() if thunk.image is None]
    assert len(shared) > 4
    _use_llvms(s, monkeypatch)
    assert _called(s, functions) == results
    assert all(thunk.image for thunk in s.inspect.engine.thunks._thunks.values())
    s.check()


_VARIADIC = """
#include <stdarg.h>
long wholes[20]; double reals[20];
int variadic(const char *kinds, ...) {
    va_list list;
    va_start(list, kinds);
    int n = 0;
    for (; kinds[n]; n++)
        if (kinds[n] == 'd') reals[n] = va_arg(list, double);
        else wholes[n] = va_arg(list, long);
    va_end(list);
    return n;
}
"""


def test_it_calls_functions_with_any_arguments(s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    s.run(_VARIADIC, "c")
    cases = []
    for _ in range(12):
        kinds = "".join(rng.choices("ld", k=rng.randrange(_MOST)))
        values = [_value(rng, "double" if kind == "d" else "i64") for kind in kinds]
        cases.append((kinds, values))
    for own in (False, True):
        if own:
            _use_llvms(s, monkeypatch)
        for kinds, values in cases:
            assert s.call("variadic", kinds, *values) == len(kinds)
            wholes, reals = s["wholes"].value, s["reals"].value
            seen = [reals[i] if kind == "d" else wholes[i] for i, kind in enumerate(kinds)]
            assert seen == values


def test_signatures_of_numbers_and_pointers_need_no_compile(s: Session) -> None:
    s.run("double f(int a, double *b, float c, long d) { return a + (b ? *b : 0) + c + d; }", "c")
    s.run("void g(unsigned char a, _Bool b) {}", "c")
    compiled = s.inspect.engine.pool.compile
    s.inspect.engine.pool.compile = None  # type: ignore[assignment]
    assert s.call("f", 1, None, 2.5, 4) == 7.5 and s.call("g", 200, True) is None
    s.inspect.engine.pool.compile = compiled  # type: ignore[method-assign]
    assert len(s.inspect.engine.thunks.images) == 2  # by what is returned


def _words(*types: str, **attributes: str) -> tuple[list[int], int] | None:
    layout = passed(types, {int(at[1:]): text for at, text in attributes.items()})
    return ([m.offset // 8 for m in layout.members], layout.size // 8) if layout else None


def test_where_arguments_lie() -> None:
    assert _words() == ([], 14)
    assert _words("double", "i32", "ptr", "float", "i1") == ([6, 0, 1, 7, 2], 14)
    assert _words(*["i64"] * 6, "double") == ([0, 1, 2, 3, 4, 5, 6], 14)
    assert _words(*["i64"] * 7, "double", "i8") == ([0, 1, 2, 3, 4, 5, 14, 6, 15], 30)
    assert _words(*["float"] * 9, "i8") == ([*range(6, 14), 14, 0], 30)
    assert _words(*["ptr"] * 22) == ([*range(6), *range(14, 30)], 30)
    assert _words("i8", "i16", _0="zeroext") == ([0, 1], 14)
    assert [block.size // 8 for block in BLOCKS] == [14, 30]
    for type in ("i65", "x86_fp80", "half", "<2 x i32>", "{ i32 }", "ptr addrspace(270)"):
        assert _words("i64", type) is None
    for attribute in ("signext", "nest", "byval(i32)", "sret(i32)", "swiftself"):
        assert _words("i8", _0=attribute) is None
    assert _words(*["ptr"] * 23) is None


def test_what_is_returned_alike() -> None:
    for type in ("void", "ptr", "i8", "i16", "i32", "i64"):
        assert returned(type, "") == "i64"
    assert returned("i8", "signext") == returned("i1", "zeroext") == "i64"
    assert returned("float", "") == returned("double", "") == "double"
    for type in ("i1", "i24", "i33", "i128", "half", "{ i64, i64 }", "<2 x float>"):
        assert returned(type, "") == ""
    assert returned("i64", "inreg") == ""


def test_it_was_compiled_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    from zlib import crc32

    for block in BLOCKS:
        for result in ("i64", "double"):
            name, request = thunks.common(block, result)
            assert built(name, crc32(request.source.encode())), "run tools/make_runtime.py"
    # Where that is not of this text, it is compiled.
    monkeypatch.setattr(thunks, "built", lambda name, made_of: b"")
    with Session(capacity=16 << 20, spare=False) as s:
        assert s.run("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n@f(7)").value == 7
        assert len(s.inspect.engine.thunks.images) == 1


def test_an_operation_that_fails_takes_it_back(s: Session) -> None:
    known = s.inspect.engine.thunks
    s.run("define i32 @f(i32 %x) {\n  ret i32 %x\n}")
    before = s.inspect.engine.arena.zones["text"].list.live.copy()
    with pytest.raises(KeyboardInterrupt), s.inspect.engine.arena.rollback.atomic():
        signature = s.inspect.program.linker.symbols["f"].info
        known.target(signature, ("i32",))  # type: ignore[arg-type]
        assert known.images and known._thunks
        raise KeyboardInterrupt
    assert not known.images and not known._thunks
    assert s.inspect.engine.arena.zones["text"].list.live == before
    assert s.call("f", 3) == 3
    s.check()
