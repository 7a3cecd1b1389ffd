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
    "functions", SQ, "declare i32 @b()\n" + caller("a", "b"), constant("b", 7), "@sq(9)", "@a()",
)  # fmt: skip
_scenario(
    "hibernated", SQ, constant("b", 7), "@p = global ptr @b", "declare i32 @b()\n" + caller("c", "b"),
    lambda s: setattr(s, "budget", 1), constant("d", 1), "@c()", lambda s: s.keep("sq"),
    "%f = load ptr, ptr @p\n%r = call i32 %f()", lambda s: s.hibernate("b", "d"),
)  # fmt: skip
_scenario("globals", "@g = global [3 x i64] [i64 1, i64 2, i64 3]", "store i64 9, ptr @g", "@g")
_scenario(
    "redefined", _as("x", SQ),
    "define i32 @two(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  ret i32 %r\n}", _as("x", CUBE), "@two(3)", CUBE.replace("@sq", "@other"), "@two(4)",
)  # fmt: skip
_scenario(
    "pointers in data", constant("b", 7), "@table = global [2 x ptr] [ptr @b, ptr @sin]",
    "declare double @sin(double)\n@f = global ptr @sin", "@p = ptr @b", "@s = ptr \"some text\"",
    constant("b", 8), "%f = load ptr, ptr @table\n%r = call i32 %f()",
)  # fmt: skip
_scenario("libraries", '@puts("hello")', '@strlen("four")', "@r = @sin(double 0.5)", "@r")
_scenario(
    "superseded", constant("a", 1) + "\n" + constant("b", 2), caller("c", "a"), constant("a", 3),
    constant("b", 4), "@c()",
)  # fmt: skip
_scenario(
    "evicted by force", constant("a", 1), caller("c", "a"), lambda s: s.evict("a", force=True),
    _fails("@c()"), "@p = ptr @c",
)  # fmt: skip
_scenario("undone", constant("a", 1), "@g = global i32 4", "store i32 5, ptr @g",
          lambda s: s.undo(), constant("a", 9), lambda s: s.undo(2))  # fmt: skip
_scenario(
    "redone", constant("a", 1), "@g = i64 3", constant("a", 2), lambda s: s.undo(2),
    lambda s: s.redo(), constant("b", 1), lambda s: s.undo(),
)  # fmt: skip
_scenario(
    "defined once", constant("a", 1) + "\n" + constant("b", 2), constant("a", 3),
    lambda s: s.evict("a"), lambda s: s.inspect.history.clear(), constant("c", 1), "@b()",
)  # fmt: skip
_scenario(
    "retyped", constant("a", 1), caller("c", "a"),
    _as("y", "define i64 @a(i64 %x) {\n  ret i64 %x\n}", retype=True), _fails("@c()"),
    lambda s: s.undo(),
)  # fmt: skip
_scenario(
    "of another type now", constant("a", 1), caller("c", "a"), "@p = ptr @a", caller("d", "a"),
    _as("y", "define i64 @a(i64 %x) {\n  ret i64 %x\n}", retype=True),
)  # fmt: skip
_scenario(
    "of the type before again", constant("a", 1), caller("c", "a"), constant("n", 2),
    _as("y", "define i64 @a(i64 %x) {\n  ret i64 %x\n}", retype=True), constant("n", 3),
    lambda s: s.undo(2), lambda s: s.redo(), lambda s: s.undo(), "@c()",
)  # fmt: skip
_scenario(
    "named types", "%pt = type { i32, i32 }\n@o = global %pt { i32 1, i32 2 }", "@o",
    "%pt = type { i64, i32 }\n@q = global %pt zeroinitializer",
)  # fmt: skip
_scenario("assigned", "@n = i64 5", constant("k", 3) + "\n@r = @k()\n@t = i32 8", "@n = 6",
          lambda s: s.undo(), "@v = double 0.5")  # fmt: skip
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
_scenario("replaced by nothing", _as("x", constant("a", 1)), caller("c", "a"),
          _as("x", "%a = add i32 1, 2"), _as("x", constant("q", 1)))  # fmt: skip
_scenario("the latest of a notebook cell is gone", _as("x", constant("a", 1)), caller("c", "a"),
          _as("x", constant("q", 1)), lambda s: s.evict("q"))  # fmt: skip
_scenario("an earlier one is the notebook cell again", _as("x", constant("a", 1)),
          caller("c", "a"), _as("x", constant("q", 1)), "@u = ptr @q",
          lambda s: s.undo(cell=3, cascade=True))  # fmt: skip
_scenario("failing", constant("a", 1), _fails("store i32 1, ptr null"), _fails("@nothing"),
          "@g = global i32 1", _fails("@g = 2\nstore i32 1, ptr null"))  # fmt: skip
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
