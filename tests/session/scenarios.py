"""Programs that leave more in a session than functions: what a saved one must have again."""

from __future__ import annotations

from collections.abc import Callable

from programs import CUBE, SQ, caller, constant

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session import CellOptions

ROUNDS: dict[str, list[Callable[[Session], object]]] = {}


def _scenario(name: str, *steps: str | Callable[[Session], object]) -> None:
    def run(source: str) -> Callable[[Session], object]:
        return lambda s: s.run(source)

    ROUNDS[name] = [run(x) if isinstance(x, str) else x for x in steps]


def _fails(source: str) -> Callable[[Session], object]:
    def run(s: Session) -> None:
        try:
            s.run(source)
        except JitError:
            return
        raise AssertionError(f"{source} did not fail")

    return run


def _as(cell_id: str, source: str, **options: object) -> Callable[[Session], object]:
    return lambda s: s.run(source, cell_id=cell_id, options=CellOptions(**options))  # type: ignore[arg-type]


_scenario(
    "hibernated", SQ, constant("b", 7), "@p = global ptr @b", "declare i32 @b()\n" + caller("c", "b"),
    lambda s: setattr(s, "budget", 1), constant("d", 1), "@c()", lambda s: s.keep("sq"),
    "%f = load ptr, ptr @p\n%r = call i32 %f()", lambda s: s.hibernate("b", "d"),
)  # fmt: skip
_scenario(
    "pointers in data", constant("b", 7), "@table = global [2 x ptr] [ptr @b, ptr @sin]",
    "declare double @sin(double)\n@f = global ptr @sin", "@p = ptr @b", "@s = ptr \"some text\"",
    constant("b", 8), "%f = load ptr, ptr @table\n%r = call i32 %f()",
)  # fmt: skip
_scenario("libraries", '@puts("hello")', '@strlen("four")', "@r = @sin(double 0.5)", "@r")
_scenario(
    "named types", "%pt = type { i32, i32 }\n@o = global %pt { i32 1, i32 2 }", "@o",
    "%pt = type { i64, i32 }\n@q = global %pt zeroinitializer",
)  # fmt: skip
_scenario(
    "constructors", "@n = global i32 0\ndefine internal void @up() {\n  %a = load i32, ptr @n\n"
    "  %b = add i32 %a, 1\n  store i32 %b, ptr @n\n  ret void\n}\n"
    "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]"
    " [{ i32, ptr, ptr } { i32 65535, ptr @up, ptr null }]",
    "@n",
)  # fmt: skip
_scenario(
    "groups", "$w = comdat any\ndefine linkonce_odr i32 @w() comdat {\n  ret i32 1\n}\n"
    + caller("u1", "w"),
    "$w = comdat any\ndefine linkonce_odr i32 @w() comdat {\n  ret i32 1\n}\n" + caller("u2", "w"),
    lambda s: s.evict(1), "@u2()",
)  # fmt: skip
_scenario(
    "atexit", "declare i32 @atexit(ptr)\ndefine void @bye() {\n  ret void\n}\n"
    "define void @reg() {\n  %r = call i32 @atexit(ptr @bye)\n  ret void\n}\n@reg()",
)  # fmt: skip
_scenario("declared", "declare i32 @later(i32)", "declare i32 @later(i32)\n" + constant("z", 1),
          "define i32 @later(i32 %x) {\n  ret i32 %x\n}", "@later(3)")  # fmt: skip
_scenario("reset", constant("a", 1), "@g = global i32 1", lambda s: s.reset(), constant("b", 1))
_scenario("respawned", '@puts("a")', "@p = global ptr @puts", lambda s: s.respawn(), '@puts("b")')
_scenario("large", "@big = global [100000 x i64] zeroinitializer", lambda s: s.evict("big"),
          "@mid = global [9000 x i32] zeroinitializer",
          "%p = getelementptr i32, ptr @mid, i64 8000\nstore i32 7, ptr %p")  # fmt: skip
_scenario("closed", _as("k", SQ + "\n" + "define i32 @t(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n"
          "  ret i32 %r\n}", closed=True), CUBE)  # fmt: skip
_scenario("unwinding", "declare i32 @__gxx_personality_v0(...)\ndeclare void @may()\n"
          "define void @t() personality ptr @__gxx_personality_v0 {\n  invoke void @may() to label "
          "%a unwind label %b\na:\n  ret void\nb:\n  %l = landingpad { ptr, i32 } cleanup\n"
          "  resume { ptr, i32 } %l\n}", constant("n", 1))  # fmt: skip
