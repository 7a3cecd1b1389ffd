"""What a callback may do to the program while its code runs: look, but not take code away."""

from collections.abc import Callable

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.run.results import Collector

pytestmark = pytest.mark.process

RUNS = """#include <stdio.h>
#include <unistd.h>
volatile int v = 1;
int f(void) {
  v = 2;
  puts("go");
  fflush(stdout);
  for (int i = 0; i < 50; i++) usleep(2000);
  return 7;
}"""

REFUSED: dict[str, Callable[[Session], object]] = {
    "undo": lambda s: s.undo(),
    "undo of one": lambda s: s.undo(name="f"),
    "redo": lambda s: s.redo(),
    "reset": lambda s: s.reset(),
    "evict by force": lambda s: s.evict("f", force=True),
    "hibernate": lambda s: s.hibernate("f"),
    "define again": lambda s: s.run("define i32 @f() { ret i32 8 }"),
    "place": lambda s: s.place(s.compile("define i32 @f() { ret i32 8 }")),
}


class Once(Collector):
    """Does something at the first output."""

    def __init__(self, act: Callable[[], object]):
        super().__init__()
        self._act = act
        self.raised: list[BaseException] = []

    def output(self, name: str, data: bytes) -> None:
        act, self._act = self._act, lambda: None
        try:
            act()
        except UsageError as error:
            self.raised.append(error)


@pytest.mark.parametrize("what", REFUSED)
def test_code_that_runs_is_not_taken_away(s: Session, what: str) -> None:
    s.run(RUNS, "c")
    s.run("define i32 @z() { ret i32 1 }")
    s.undo()
    text = s["f"].address
    sink = Once(lambda: REFUSED[what](s))
    assert s.value("@f()", sink).python == 7
    (error,) = sink.raised
    assert "code of the program is running" in str(error)
    assert s["f"].address == text and s["v"].value == 2
    assert s.call("f") == 7
    s.check()
    if what != "redo":  # nothing runs now; but a global was changed since the undo
        REFUSED[what](s)


def test_looking_is_allowed() -> None:
    seen: list[object] = []
    with Session() as s:
        s.run(RUNS, "c")
        sink = Once(lambda: seen.append((s["v"].value, s.inspect.cell_of("f")[0].number)))
        assert s.value("@f()", sink).python == 7
        assert seen == [(2, 1)] and not sink.raised
