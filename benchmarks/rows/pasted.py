"""IR as a C compiler writes it, with a CPU that nobody chose.  Start from `matmul`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Figure, Scale, compare
from jitkernel import Session
from jitkernel.session.settings import CellOptions

__all__ = ["matmul", "source"]

# Three loops over rows, as clang leaves them at -O1: not yet vectors.
_MATMUL = """target triple = "x86_64-unknown-linux5.10.0-gnu2.31.0"
define void @NAME(ptr readonly captures(none) %a, ptr readonly captures(none) %b, ptr captures(none) %c, i64 %n) #0 {
entry:
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %i1, %row ]
  %at = mul nuw nsw i64 %i, %n
  %ai = getelementptr inbounds TYPE, ptr %a, i64 %at
  %ci = getelementptr inbounds TYPE, ptr %c, i64 %at
  br label %columns
columns:
  %k = phi i64 [ 0, %rows ], [ %k1, %column ]
  %p = getelementptr inbounds TYPE, ptr %ai, i64 %k
  %x = load TYPE, ptr %p
  %bat = mul nuw nsw i64 %k, %n
  %bk = getelementptr inbounds TYPE, ptr %b, i64 %bat
  br label %sums
sums:
  %j = phi i64 [ 0, %columns ], [ %j1, %sums ]
  %q = getelementptr inbounds TYPE, ptr %bk, i64 %j
  %y = load TYPE, ptr %q
  %r = getelementptr inbounds TYPE, ptr %ci, i64 %j
  %z = load TYPE, ptr %r
  %s = tail call TYPE @llvm.fmuladd.BITS(TYPE %x, TYPE %y, TYPE %z)
  store TYPE %s, ptr %r
  %j1 = add nuw nsw i64 %j, 1
  %last = icmp eq i64 %j1, %n
  br i1 %last, label %column, label %sums
column:
  %k1 = add nuw nsw i64 %k, 1
  %lastk = icmp eq i64 %k1, %n
  br i1 %lastk, label %row, label %columns
row:
  %i1 = add nuw nsw i64 %i, 1
  %lasti = icmp eq i64 %i1, %n
  br i1 %lasti, label %out, label %rows
out:
  ret void
}
declare TYPE @llvm.fmuladd.BITS(TYPE, TYPE, TYPE)
attributes #0 = { nounwind "no-trapping-math"="true"CPU }
"""
_CPU = (
    ' "target-cpu"="x86-64" "target-features"="+64bit,+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87,-avx"'
    ' "tune-cpu"="generic"'
)


def source(name: str, type_: str, cpu: bool) -> str:
    """A product of matrices of n x n elements, called `name`."""
    text = _MATMUL.replace("NAME", name).replace("TYPE", type_).replace("CPU", _CPU if cpu else "")
    return text.replace("BITS", {"float": "f32", "double": "f64"}[type_])


def _call(s: Session, name: str, *arguments: int) -> None:
    """One product; the last argument, the number of the repetition, does not count."""
    s.call(name, *arguments[:-1])


def matmul(scale: Scale) -> Iterator[Figure]:
    """The same product written for this machine, pasted, and pasted with its CPU kept."""
    n = scale.pick(128, 512)
    for type_ in ("float", "double"):
        with Session() as s:
            s.run("".join(f"@{m} = global [{n * n} x {type_}] zeroinitializer\n" for m in "abc"))
            s.run(source("native", type_, cpu=False))
            s.run(source("pasted", type_, cpu=True))
            s.run(source("kept", type_, cpu=True), options=CellOptions(keep_cpu=True))
            code = [
                s.inspect.engine.arena.read(f.address, f.size)
                for f in map(s.symbols.get, ("native", "pasted"))
                if f
            ]
            at = [s.symbols[m].address for m in "abc"]
            sides = {name: partial(_call, s, name, *at, n) for name in ("native", "pasted", "kept")}
            took = compare(sides, 12 * scale.blocks, 1, warm_up=2).blocks
        least = {name: min(times) for name, times in took.items()}  # others only add to it
        what = f"matmul of {n} x {n} {type_}s"
        yield Figure(f"{what}: written for this machine", least["native"] / 1e6, "ms")
        yield Figure(f"{what}: pasted is other code than that", float(code[0] != code[1]), "1", 0)
        yield Figure(f"{what}: pasted / that", least["pasted"] / least["native"], "x", 1.05)
        yield Figure(f"{what}: --keep-cpu / that", least["kept"] / least["native"], "x")
