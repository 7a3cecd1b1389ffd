"""Functions with a strategy of garbage collection: their calls are statepoints, whatever else runs."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

import pytest

from jitkernel.compiler import hidden
from jitkernel.compiler.passes import STATEPOINTS
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import FOLLOWED, Options, Request
from jitkernel.elf import read_object
from jitkernel.elf.stack_maps import StackMaps, read_stack_maps

PLAIN = Options()


def held(strategy: str = "statepoint-example") -> str:
    """Of three calls only the first has to be told of the argument: the second is a leaf, and
    behind the last nobody needs it."""
    return f"""declare void @safe()
declare void @leaf() "gc-leaf-function"
define i64 @f(ptr addrspace(1) %o, i64 %n) gc "{strategy}" {{
  call void @safe()
  call void @leaf()
  %v = load i64, ptr addrspace(1) %o
  call void @safe()
  %r = add i64 %v, %n
  ret i64 %r
}}"""


def maps(data: bytes) -> StackMaps:
    """The stack maps of an object, as they are before it is linked."""
    obj = read_object(data)
    found = [i for i in range(len(obj.sections)) if obj.section_name(i) == ".llvm_stackmaps"]
    return read_stack_maps(b"".join(bytes(obj.content(i)) for i in found))


def pointers(pool: CompilerPool, source: str, options: Options = PLAIN) -> list[int]:
    """The pairs of pointers at each call, in order."""
    points = maps(pool.compile(Request(source, options)).object).records
    return [len(point.statepoint.pointers) for point in points]


@pytest.mark.parametrize(
    "options",
    [
        *(Options(level) for level in range(4)),
        Options(passes="none"),
        Options(passes="sroa"),
        Options(passes=STATEPOINTS),
        Options(passes=f"mem2reg,{STATEPOINTS},dce"),
        Options(closed=True),
        Options(debug=FOLLOWED),
    ],
    ids=str,
)
def test_a_call_is_a_statepoint_under_all_options(pool: CompilerPool, options: Options) -> None:
    assert pointers(pool, held(), options) == [1, 0]


def test_only_strategies_that_ask_for_it(pool: CompilerPool) -> None:
    assert pointers(pool, held("coreclr")) == [1, 0]
    assert pointers(pool, held("shadow-stack")) == []
    assert pointers(pool, held().replace(' gc "statepoint-example"', "")) == []
    said = held().replace(' gc "', ' ; gc "')
    assert pointers(pool, re.sub(r'e" {', 'e"\n{', said)) == []


@pytest.mark.parametrize("level", [0, 2])
def test_assembly_is_no_call(pool: CompilerPool, level: int) -> None:
    """LLVM 22 makes a statepoint of it, and aborts where it generates code."""
    words = ('call void asm sideeffect "nop", "~{memory}"()', 'call i64 asm "", "=r,0"(i64 %n) #0')
    text = held().replace("call void @leaf()", f"{words[0]}\n  %a = {words[1]}")
    text = text.replace("add i64 %v, %n", "add i64 %v, %a") + "\nattributes #0 = { nounwind }"
    assert pointers(pool, text, Options(level)) == [1, 0]
    inside = "define internal void @leaf() alwaysinline {\n  " + words[0] + "\n  ret void\n}\n"
    leaf = 'declare void @leaf() "gc-leaf-function"\n'
    assert pointers(pool, held().replace(leaf, inside), Options(level)) == [1, 0]


def test_what_a_collector_needs_of_a_safepoint(pool: CompilerPool) -> None:
    [first, second] = maps(pool.compile(Request(held())).object).safepoints()
    assert first.address < second.address
    assert first.frame == second.frame >= 8
    [(base, derived)] = first.pointers
    assert base == derived and 0 <= base < first.frame
    assert second.pointers == ()


def test_a_library_without_symbols_says_so() -> None:
    no_library = str(Path(sys.executable).resolve())
    with pytest.raises(LookupError, match=r"symbol|has no _ZN"):
        hidden.parse_pipeline(no_library, ctypes.c_void_p(0), 0, 0, STATEPOINTS)
