"""What a level's pass pipeline does to loops, as clang's does."""

from __future__ import annotations

import pytest

from jitkernel.compiler import CompilerPool, Options, Request

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
    text = pool.optimised(Request(SUM, Options(level, cpu="haswell")))
    assert ("add <8 x i32>" in text) == vectors


@pytest.mark.parametrize(("level", "divisions"), [(1, 1), (2, 4), (3, 4)])
def test_short_loops_are_unrolled(pool: CompilerPool, level: int, divisions: int) -> None:
    four = CHAIN.replace("%next, %n", "%next, 4")
    assert pool.optimised(Request(four, Options(level))).count("sdiv i32") == divisions


def test_passes_by_name_are_as_at_the_highest_level(pool: CompilerPool) -> None:
    """A pass that LLVM offers only in a pipeline is there whatever the session's level."""
    for level in (0, 1, 2):
        options = Options(level, cpu="haswell", passes="mem2reg,simplifycfg,loop-vectorize")
        assert "add <8 x i32>" in pool.optimised(Request(SUM, options)), level
