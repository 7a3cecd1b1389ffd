"""What a level's pass pipeline does to loops, as clang's does."""

from __future__ import annotations

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.elf import Section, read_object
from jitkernel.elf.constants import SHF_EXECINSTR

SUM = """define i32 @f(ptr %a, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi i32 [ 0, %entry ], [ %t, %loop ]
  %p = getelementptr i32, ptr %a, i64 %i
  %v = load i32, ptr %p
  %t = add i32 %s, %v
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %out, label %loop
out:
  ret i32 %t
}"""
# Each iteration waits for the one before: no vector, whatever the level.
CHAIN = SUM.replace("add i32 %s, %v", "sdiv i32 %s, %v").replace(
    "%s = phi i32 [ 0", "%s = phi i32 [ 9"
)


@pytest.mark.parametrize(("level", "vectors"), [(1, False), (2, True), (3, True)])
def test_loops_become_vectors(pool: CompilerPool, level: int, vectors: bool) -> None:
    text = pool.printed(Request(SUM, Options(level, cpu="haswell")))
    assert ("add <8 x i32>" in text) == vectors


@pytest.mark.parametrize(("level", "divisions"), [(1, 1), (2, 4), (3, 4)])
def test_short_loops_are_unrolled(pool: CompilerPool, level: int, divisions: int) -> None:
    four = CHAIN.replace("%next, %n", "%next, 4")
    assert pool.printed(Request(four, Options(level))).count("sdiv i32") == divisions


def test_passes_by_name_are_as_at_the_highest_level(pool: CompilerPool) -> None:
    """A pass that LLVM offers only in a pipeline is there whatever the session's level."""
    for level in (0, 1, 2):
        options = Options(level, cpu="haswell", passes="mem2reg,simplifycfg,loop-vectorize")
        assert "add <8 x i32>" in pool.printed(Request(SUM, options)), level


# The loop begins 2 bytes behind what is skipped.
WALK = """define i32 @walk(ptr %p) {
entry:
  call void asm sideeffect ".skip SKIPPED, 0x90", ""()
  br label %loop
loop:
  %at = phi ptr [ %p, %entry ], [ %next, %loop ]
  %count = phi i32 [ 0, %entry ], [ %more, %loop ]
  %next = load ptr, ptr %at
  %more = add i32 %count, 1
  %done = icmp eq ptr %next, null
  br i1 %done, label %out, label %loop
out:
  ret i32 %more
}"""


def _text(pool: CompilerPool, source: str) -> tuple[int, bytes]:
    """Alignment and bytes of the one section of code."""
    obj = read_object(pool.compile(Request(source, Options(2, cpu="haswell"))).object)
    section = next(s for s in map(Section._make, obj.sections) if s.flags & SHF_EXECINSTR)
    return section.align, bytes(obj.data[section.offset : section.offset + section.size])


@pytest.mark.parametrize(
    ("skipped", "start"), [(0, 2), (30, 32), (31, 64), (40, 64), (61, 64), (62, 64), (63, 65)]
)
def test_a_loop_begins_with_a_line_of_the_cache_where_it_is_near(
    pool: CompilerPool, skipped: int, start: int
) -> None:
    align, code = _text(pool, WALK.replace("SKIPPED", str(skipped)))
    assert align == 64
    assert code.index(b"\x48\x8b\x3f") == start  # mov rdi, [rdi]


@pytest.mark.parametrize(
    "source",
    [
        "define i32 @f(i32 %x) {\n  ret i32 %x\n}",
        "declare i32 @g()\ndefine i32 @f() {\n  %x = call i32 @g()\n  ret i32 %x\n}",
    ],
)
def test_code_without_a_loop_is_not_aligned_further(pool: CompilerPool, source: str) -> None:
    assert _text(pool, source)[0] == 16
