"""Thread-local variables where a thread stands: each thread's own, set and read by the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.debugging.records import Breakpoint, Event

pytestmark = pytest.mark.process

C = """#include <pthread.h>
_Thread_local int per = 4;
_Thread_local struct { int a; double b; } pair = { 1, 2.5 };
int work(int k) {
  per += k;
  pair.a = per;
  return per;
}
static void *other(void *p) { work(*(int *)p); return 0; }
int both(int k) {
  pthread_t t; int two = 2 * k, mine = work(k);
  pthread_create(&t, 0, other, &two); pthread_join(t, 0);
  return mine;
}
"""
IR = """@each = thread_local global i64 9
declare ptr @llvm.threadlocal.address.p0(ptr)
define i64 @bump(i64 %n) {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @each)
  %v = load i64, ptr %p
  %w = add i64 %v, %n
  store i64 %w, ptr %p
  ret i64 %w
}
"""


@pytest.fixture
def s() -> Iterator[Session]:
    pytest.importorskip("ziglang")
    with Session(capacity=64 << 20, spare=False) as session:
        session.run(C, "c")
        session.run(IR)
        session.debugger.start()
        yield session
        session.debugger.close()
        session.check()


def seen(s: Session, call: tuple[str, int], point: Breakpoint, *texts: str) -> list[list[str]]:
    """The values of expressions at each stop, by calls of what is needed for that."""
    found: list[list[str]] = []

    def hear(event: Event) -> None:
        if event.kind == "stopped":
            debugger = s.debugger
            found.append([debugger.evaluate(text, calls=True).value for text in texts])
            debugger.go()

    s.debugger.listener = hear
    s.debugger.add(point)
    s.call(*call)
    return found


def test_each_thread_sees_its_own(s: Session) -> None:
    at = Breakpoint(source=C, line=7)
    assert seen(s, ("both", 5), at, "per", "pair.a", "pair.b", "per == k + 4") == [
        ["9", "9", "2.5", "1"], ["14", "14", "2.5", "1"],
    ]  # fmt: skip
    assert s["per"].value == 9


def test_without_calls_the_cell_s_thread_is_known_and_others_say_so(s: Session) -> None:
    found: list[str] = []

    def hear(event: Event) -> None:
        if event.kind != "stopped":
            return
        debugger = s.debugger
        globals = {v.name: v.value for v in debugger.globals()}
        assert globals["per"] == debugger.evaluate("per").value
        found.append(globals["per"])
        if len(found) == 2:
            with pytest.raises(UsageError, match="each thread has its own: `p per` asks thread"):
                debugger.evaluate("per + 1")
        debugger.go()

    s.debugger.listener = hear
    s.debugger.add(Breakpoint(source=C, line=7, condition="k > 0"))
    s.call("both", 5)
    assert found[0] == "9" and found[1].startswith("<each thread has its own")


def test_conditions_and_what_is_set(s: Session) -> None:
    """A condition asks no thread: where it cannot be known, it stops, as any that is wrong."""
    at = Breakpoint(source=C, line=7, condition="per == 8")
    assert seen(s, ("both", 5), at, "per = per + 56") == [["70"]]
    at = Breakpoint(source=C, line=7, condition="per == 14")
    assert seen(s, ("both", 5), at, "per = 70")[0] == ["70"]
    assert s["per"].value == 70


def test_of_ir(s: Session) -> None:
    at = Breakpoint(source=IR, line=8)
    assert seen(s, ("bump", 5), at, "@each", "%w", "each == %w") == [["14", "14", "1"]]
    assert seen(s, ("bump", 5), at, "@each")[-1] == ["19"]
