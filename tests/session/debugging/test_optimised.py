"""Optimised code: what is shown is what the program would compute without optimisation, as gdb
shows it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.debugging import values
from jitkernel.session.debugging.records import Breakpoint, Event
from jitkernel.session.debugging.values import Value, bytes_of
from jitkernel.session.debugging.view import LOOPED
from jitkernel.values.python import to_python
from tests.elf import debugged
from tests.seeds import seeds


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as s:
        s.debugger.start()
        s.debugger.optimised = True
        yield s
        s.debugger.close()
        s.check()


def leaves(value: Value, read: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers that a value consists of, by their paths, as `debugged` has them."""
    kind, size = value.type.bare.kind, value.type.bare.size
    if value.missing or kind == "pointer" or value.type.name.startswith("const char *"):
        return
    if kind in ("struct", "union", "array"):
        for part in values.children(value, read):
            inner = part.value
            name = "" if part.name.startswith("<") else part.path.lstrip("*")
            if not inner.bits:
                yield from leaves(inner, read, path + name)
        return
    data = bytes_of(value, read)
    if data is not None and kind == "float" and size <= 8:
        yield path, repr(to_python(value.type, data))
    elif data is not None and kind != "float" and size <= 8:
        yield path, data


def agrees(wanted: str | None, found: str | bytes) -> bool:
    """True if a number is what gdb says, as far as that is known."""
    if wanted is None or isinstance(found, str) or "." in wanted:
        return wanted is None or wanted == found
    return (int(wanted) - int.from_bytes(found, "little")) % (1 << 8 * len(found)) == 0


def stops(s: Session, source: str, arguments: tuple[int, ...]) -> list[list[dict[str, Any]]]:
    """The frames at each call of `marker`: names, lines and values."""
    debugger, found = s.debugger, []

    def look(event: Event) -> None:
        if event.kind != "stopped":
            return
        frames = []
        for frame in debugger.frames():
            known = {}
            if debugger._standing.frame(frame.index).place is not None:
                for name, value in debugger._standing.locals(frame.index):
                    known[name] = dict(leaves(value, debugger.read))
            frames.append({"name": frame.name, "inlined": frame.inlined, "names": known})
        found.append(frames)
        debugger.go()

    s.run(source, "c")
    debugger.add(Breakpoint(function="marker"))
    debugger.listener = look
    s.call("entry", *arguments)
    return found


@pytest.mark.parametrize("kind", ["program", "inlining"])
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_values_are_those_of_gdb_or_optimised_out(
    session: Session, tmp_path: Path, kind: str, seed: int
) -> None:
    source = getattr(debugged, kind)(seed)
    truth = debugged.observe(source, tmp_path, "gcc", "-O0", "-g")
    arguments = (1, 0) if "argc" in source else ()
    found = stops(session, source.replace("int main(", "int entry("), arguments)
    assert len(found) >= len(truth.stops) > 0
    told = 0
    for mine, theirs in zip(found, truth.stops, strict=False):
        names = [frame["name"] for frame in mine]
        wanted = [frame["name"].replace("main", "entry") for frame in theirs["frames"]]
        assert [name for name in names if name in wanted] == wanted
        frames = [frame for frame in mine if frame["name"] in wanted]
        for frame, right in zip(frames, theirs["frames"], strict=True):
            for name, parts in frame["names"].items():
                # Statics of inner blocks can be seen around them.
                known = right["names"].get(name, {"leaves": {}})["leaves"]
                for path, value in parts.items():
                    if path in known:
                        assert agrees(known[path], value), (
                            frame["name"],
                            name,
                            path,
                            known[path],
                            value,
                        )
                        told += 1
    assert told >= len(truth.stops)
    if kind == "inlining" and "static inline" in source:
        assert any(frame["inlined"] for frames in found for frame in frames)


ARGUMENTS = """struct pt { long a, b; };
__attribute__((noinline)) void marker(void) { __asm__ volatile(""); }
__attribute__((noinline)) int far(int a, int b) { int c = a * 2 + b; marker(); return c; }
__attribute__((noinline)) int itself(int n, int k) {
  if (n > 0) return itself(n - 1, k + n);
  marker();
  return 3;
}
__attribute__((noinline)) long both(struct pt p, int k) {
  marker();
  long r = p.b * k;
  marker();
  return r;
}
int entry(int n) {
  int x = far(n, 7), y = far(3, n);
  return x + y + itself(2, 1) + both((struct pt){ n, 2 }, n);
}
int (*chosen)(int, int) = far;
int by_pointer(int n) { return chosen(n, 4) + 1; }
"""


def seen_at_marker(s: Session, name: str, *arguments: int) -> list[dict[str, dict[str, str]]]:
    """The variables of each frame, by its function, at each call of `marker`."""
    debugger, found = s.debugger, []

    def look(event: Event) -> None:
        if event.kind != "stopped":
            return
        frames = {}
        for frame in debugger.frames():
            scopes = [x for x in debugger.scopes(frame.index) if x.name == "Locals"]
            every = [v for x in scopes for v in debugger.variables(x.reference)]
            known = {v.name: v.value for v in every}
            for v in every:
                if v.reference:
                    parts = debugger.variables(v.reference)
                    known |= {f"{v.name}.{p.name}": p.value for p in parts}
            frames.setdefault(frame.name, known)  # the innermost of a recursion
        found.append(frames)
        debugger.go()

    debugger.listener = look
    debugger.add(Breakpoint(function="marker"))
    s.call(name, *arguments)
    return found


def test_arguments_are_what_the_call_gave(session: Session) -> None:
    """Nothing of them is in `far` any more: its caller's instructions tell."""
    session.run(ARGUMENTS, "c")
    first, second, *_ = seen_at_marker(session, "entry", 5)
    assert first["far"]["b"] == "7" and first["far"]["c"] == "17"
    assert second["far"] == {"a": "3", "b": "5", "c": "11"}
    assert second["entry"]["n"] == "5" and second["entry"]["x"] == "17"


def test_a_call_in_front_of_a_return_stays_a_call(session: Session) -> None:
    """LLVM makes a loop of it, and says that the arguments are the first call's."""
    session.run(ARGUMENTS, "c")
    found = [f["itself"] for f in seen_at_marker(session, "entry", 5) if "itself" in f]
    assert found
    for known in found:
        assert known["n"] in ("0", "<optimised out>") and known["k"] in ("4", "<optimised out>")


def test_a_call_by_a_pointer_tells_nothing_of_who_was_called(session: Session) -> None:
    session.run(ARGUMENTS, "c")
    found = seen_at_marker(session, "by_pointer", 5)
    assert found[0]["far"]["a"] in ("5", "<optimised out>")
    assert found[0]["far"]["b"] in ("4", "<optimised out>")


def test_of_a_struct_in_pieces_the_parts_are_shown_that_are_somewhere(session: Session) -> None:
    session.run(ARGUMENTS, "c")
    first, *_ = (f["both"] for f in seen_at_marker(session, "entry", 5) if "both" in f)
    assert first["p.b"] == "2"
    assert (first["p"], first["p.a"]) in (
        ("<optimised out in part>", "<optimised out>"), ("{.a = 5, .b = 2}", "5"),
    )  # fmt: skip


HIDDEN = """int used; void *where;
__attribute__((noinline)) void marker(void) { __asm__ volatile("" ::: "memory"); }
int entry(int n) {
  int c = 71;
  { static short a = 3; where = &a; }
  long a = n;
  { int *c = &used; where = c; marker(); }
  for (int i = 0; i < 2; i++) used += i;
  for (int i = 0; i < 2; i++) { used += i; marker(); }
  return c + (int)a;
}
"""


def test_of_names_within_names_nobody_knows_which_is_seen(session: Session) -> None:
    session.run(HIDDEN, "c")
    for frames in seen_at_marker(session, "entry", 5):
        known = frames["entry"]
        assert known["c"] == known["a"] == "<optimised out>"
        assert known.get("i") in (None, "0", "1", "<optimised out>", LOOPED)
        assert known["n"] in ("5", "<optimised out>")


# -- LLVM IR ---------------------------------------------------------------------------------------


SUM = """define i32 @sum(i32 %n, ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %v = load volatile i32, ptr %p
  %j = add i32 %i, %v
  %more = icmp slt i32 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 %j
}
@one = global i32 1
define i32 @go(i32 %n) {
  %r = call i32 @sum(i32 %n, ptr @one)
  ret i32 %r
}
"""


def test_ir_has_lines_and_no_values(session: Session) -> None:
    """Where LLVM said that its values were, they were not in three of 24 random programs."""
    lines: list[int] = []

    def look(event: Event) -> None:
        if event.kind == "stopped":
            lines.append(session.debugger.frames()[0].line)
            assert session.debugger._standing.locals(0) == []
            session.debugger.go("next")

    session.run(SUM)
    session.debugger.listener = look
    session.debugger.add(Breakpoint(function="@sum"))
    assert session.call("go", 3) == 3
    assert lines.count(7) == 3 and set(lines) <= {*range(3, 12), 15, 16}


# -- steps -----------------------------------------------------------------------------------------

STEPS = """#include <stdlib.h>
static inline __attribute__((always_inline)) int half(int v) {
  int w = v / 2;
  return w + 1;
}
__attribute__((noinline)) int fib(int n) {
  if (n < 2)
    return n;
  int a = fib(n - 1);
  int b = fib(n - 2);
  return a + b;
}
int use(int a) {
  int b = half(a) * 3;
  b += fib(b % 5);
  int c = half(b) + a;
  return c;
}
static int less(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}
int least(int n) { int v[5] = {n, 3, 1, 2, 9}; qsort(v, 5, sizeof *v, less); return v[0]; }
double scaled(double x, float y) {
  double z = x * y;
  return z + x;
}
"""


def walk(s: Session, call: str, function: str, *motions: Any) -> list[list[tuple[str, int, bool]]]:
    """The frames at each stop of a walk that begins in a function."""
    found: list[list[tuple[str, int, bool]]] = []
    left = list(motions)

    def look(event: Event) -> None:
        if event.kind == "stopped":
            frames = s.debugger.frames()
            found.append([(f.name, f.line, f.inlined) for f in frames])
            s.debugger.go(left.pop(0) if left else "continue")

    s.debugger.listener = look
    point = s.debugger.add(Breakpoint(function=function))
    name, number = call.split()
    s.call(name, int(number))
    s.debugger.remove(point.number)
    return found


def test_inlined_functions_are_frames(session: Session) -> None:
    session.run(STEPS, "c")
    found = walk(session, "use 10", "half")
    assert [[(name, inlined) for name, _, inlined in frames] for frames in found] == [
        [("half", True), ("use", False)]
    ] * 2
    assert [frames[1][1] for frames in found] == [14, 16]
    assert all(frames[0][1] in (3, 4) for frames in found)


def test_steps_go_into_inlined_functions_over_them_and_out(session: Session) -> None:
    session.run(STEPS, "c")
    out = walk(session, "use 10", "half", "step_out")
    assert out[0][0][0] == "half" and out[1][0][0] == "use" and out[1][0][1] in (14, 15)
    over = walk(session, "use 2", "fib", "step_out", "next", "next", "next")
    lines = [frames[0] for frames in over if frames[0][0] != "fib"]
    assert lines and all(name != "half" for name, *_ in lines)


def test_a_step_stays_in_its_frame_of_a_recursion(session: Session) -> None:
    """There is no frame pointer that would tell."""
    session.run(STEPS, "c")
    found: list[int] = []
    depth = 0

    def look(event: Event) -> None:
        nonlocal depth
        if event.kind != "stopped":
            return
        frames = [f for f in session.debugger.frames() if f.name == "fib"]
        depth = depth or len(frames)
        found.append(len(frames))
        session.debugger.go("next" if frames else "continue")

    session.debugger.listener = look
    session.debugger.add(Breakpoint(function="fib", temporary=True))
    assert session.call("fib", 7) == 13
    assert len(found) > 2 and set(found) <= {1, 0}


def test_pointers_to_internal_functions_lead_to_code_that_can_be_debugged(
    session: Session,
) -> None:
    session.run(STEPS, "c")
    found = walk(session, "least 10", "less")
    assert len(found) >= 4
    assert all(f[0][0] == "less" and f[-1][0] in ("least", "cell 2") for f in found)


def test_vector_registers_are_read_and_not_those_of_callers(session: Session) -> None:
    session.run(STEPS, "c")
    seen: list[dict[str, str]] = []

    def look(event: Event) -> None:
        if event.kind == "stopped":
            [scope, *_] = session.debugger.scopes()
            variables = session.debugger.variables(scope.reference)
            seen.append({v.name: v.value for v in variables})
            session.debugger.go("next")

    session.debugger.listener = look
    session.debugger.add(Breakpoint(function="scaled"))
    assert session.call("scaled", 2.5, 4.0) == 12.5
    assert seen[0]["x"] == "2.5" and seen[0]["y"] in ("4.0f", "4.0")
    assert all(v["z"] in ("10.0", "<optimised out>") for v in seen if "z" in v)


def test_what_was_taken_from_another_cell_s_old_code_is_not_shown(session: Session) -> None:
    """A function that is defined again is not a part of its callers any more."""
    s = session
    s.run("int twice(int x) { return x * 2; } int four(int x) { return twice(twice(x)); }", "c")
    assert walk(s, "four 3", "four") and s.call("four", 3) == 12
    s.run("int twice(int x) { return x * 3; }", "c")
    results: list[int] = []
    s.debugger.listener = lambda event: s.debugger.go() if event.kind == "stopped" else None
    s.debugger.add(Breakpoint(function="four"))
    results.append(s.call("four", 3))
    assert results == [27]


def test_the_level_may_change_from_call_to_call(session: Session) -> None:
    session.run(STEPS, "c")
    assert walk(session, "use 10", "half")[0][0][2]
    session.debugger.optimised = False
    found = walk(session, "use 10", "half")
    assert found and all(len(frames) >= 2 for frames in found)
    session.debugger.optimised = True
    assert walk(session, "use 10", "half")[0][0][2]


LOOPS = """int seen;
__attribute__((noinline)) void marker(void) { seen++; }
int queens(int n, int *v) {
  int before = n * 3, j = 0, last = 0;
  int *here = v;
  if (n > 2)
    last = n;
  while (j != 8) {
    j = j + 1;
    if (v[j]) {
      v[j] = 0;
      marker();
      v[j] = 1;
    }
  }
  marker();
  return before + j + last + *here;
}
int start(int n) {
  int v[9] = {0, 1, 0, 1, 1, 0, 0, 1, 0};
  return queens(n, v);
}
"""


def test_what_changes_in_a_loop_is_not_shown(session: Session) -> None:
    """Loops of optimised code count otherwise: gdb says of this `j` that it is one less."""
    session.run(LOOPS, "c")
    seen: list[dict[str, str]] = []

    def look(event: Event) -> None:
        if event.kind == "stopped":
            [frame] = [f for f in session.debugger.frames() if f.name == "queens"]
            [scope, *_] = session.debugger.scopes(frame.index)
            seen.append({v.name: v.value for v in session.debugger.variables(scope.reference)})
            with pytest.raises(UsageError, match="loop"):
                session.debugger.evaluate("j + 1", frame.index)
            session.debugger.go()

    session.debugger.listener = look
    session.debugger.add(Breakpoint(function="marker"))
    assert session.call("start", 5) == 5 * 3 + 8 + 5
    assert [known["j"] for known in seen] == [LOOPED] * 5
    assert {known["before"] for known in seen} <= {"15", "<optimised out>"}
    assert {known["last"] for known in seen} <= {"5", "<optimised out>"}
    assert any(known["before"] == "15" or known["last"] == "5" for known in seen)
