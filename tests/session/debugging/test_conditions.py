"""Conditions that threads decide themselves, against the evaluator, which decides where it is asked
about everything.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from jitkernel import Session
from jitkernel.errors import Interrupted
from jitkernel.executor.stops import Stop
from jitkernel.session.debugging.conditions import Conditions
from jitkernel.session.debugging.records import Breakpoint, Event

pytestmark = pytest.mark.process
#: Variables by type: what they may hold besides random bits.
TYPES = {
    "_Bool": "?", "char": "b", "signed char": "b", "unsigned char": "B", "short": "h",
    "unsigned short": "H", "int": "i", "unsigned": "I", "long": "q", "unsigned long": "Q",
    "long long": "q", "enum color": "I", "float": "f", "double": "d",
}  # fmt: skip
WHOLE = [name for name in TYPES if name not in ("float", "double")]
NAMES = {f"v{i}": name for i, name in enumerate([*TYPES, "int", "unsigned", "long", "double"])}
_REALS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e10, -1e19, 1e38, float("inf"), float("-inf"), float("nan"),
          2.0**31, 2.0**63, -(2.0**63), 2.0**64, 4294967295.5, 1e-40, 16777217.0]  # fmt: skip
_WHOLES = [0, 1, -1, 2, 7, 127, -128, 255, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63),
           2**53 + 1, 2**64 - 1, 31, 32, 63]  # fmt: skip
_BITS = "unsigned a:3; int b:7; unsigned long c:40; long d:64; _Bool e:1; int f:32;"
_FEW = 64  # values of each expression

CELL = (
    "enum color { RED, GREEN };\n"
    f"struct bits {{ {_BITS} }};\n"
    "struct node { int v; float r; struct node *next; short more[4]; };\n"
    f"struct all {{ {' '.join(f'{of} {name};' for name, of in NAMES.items())} struct bits s;"
    " struct node n; struct node *p; };\n"
    f"struct all values[{_FEW}]; long turn; int global = -7; short numbers[4] = {{1, -2, 3, -4}};\n"
    "int look(struct all *from) {\n"
    f"  {' '.join(f'{of} {name} = from->{name};' for name, of in NAMES.items())}\n"
    "  struct bits s = from->s; struct node n = from->n; struct node *p = from->p;\n"
    "  return 0;\n"
    "}\n"
    f"int run(void) {{ for (turn = 0; turn < {_FEW}; turn++) look(values + turn); return 0; }}\n"
)
LINE = 8


class Values(NamedTuple):
    """The layout of `struct all`, in Python's words."""

    size: int
    at: dict[str, int]


class Maker:
    """Random expressions and values, with all that goes wrong."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def leaf(self) -> str:
        pick = self.random
        literals = ["0", "1", "-1", "42u", "0x7fffffff", "2147483648", "7ul", "'a'", "1.5f", "2.5",
                    "0xffffffffffffffff", "1e30", "0.1"]  # fmt: skip
        places = ["s.a", "s.b", "s.c", "s.d", "s.e", "s.f", "(&s)->b", "p->v", "p->r", "p->next->v",
                  "p->more[1]", "n.more[s.a & 3]", "n.r", "*&n.v", "global", "numbers[2]",
                  "*numbers", "numbers[v6 & 3]", "(p - 1)->v", "p[0].next", "(p == &n)", "p",
                  "(p->next < p)", "(p - &n)", "from", "from->v0", "turn", "values[turn & 7].v6",
                  "$rsp", "$eflags", "(long)$rip"]  # fmt: skip
        kind = pick.random()
        if kind < 0.5:
            return pick.choice([*NAMES])
        return f"({pick.choice(literals if kind < 0.65 else places)})"

    def expression(self, depth: int) -> str:
        pick = self.random
        if depth <= 0:
            return self.leaf()

        def inner() -> str:
            return self.expression(depth - 1 - pick.randrange(2))

        kind = pick.randrange(12)
        if kind < 3:
            return f"({inner()} {pick.choice('+-*')} {inner()})"
        if kind == 3:
            return f"({inner()} {pick.choice('&|^')} {inner()})"
        if kind == 4:
            return f"({inner()} {pick.choice(['<<', '>>'])} {inner()})"
        if kind == 5:
            return f"({inner()} {pick.choice('/%')} {inner()})"
        if kind < 8:
            return f"({inner()} {pick.choice(['<', '>', '<=', '>=', '==', '!='])} {inner()})"
        if kind == 8:
            return f"({inner()} {pick.choice(['&&', '||'])} {inner()})"
        if kind == 9:
            return f"({inner()} ? {inner()} : {inner()})"
        if kind == 10:
            return f"({pick.choice('-+!~')} {inner()})"
        return f"(({pick.choice([*TYPES, 'struct node *'])}) {inner()})"

    def condition(self) -> str:
        found = self.expression(self.random.randrange(1, 5))
        return f"!{found}" if self.random.random() < 0.3 else found

    def value(self, of: str) -> bytes:
        pick, letter = self.random, TYPES[of]
        size = struct.calcsize(letter)
        if letter in "fd":
            if pick.random() < 0.2:
                return pick.randbytes(size)
            number = pick.choice(_REALS) if pick.random() < 0.6 else pick.uniform(-9, 9)
            return struct.pack(letter, number)
        if letter == "?":
            return bytes([pick.randrange(2)])
        number = pick.choice(_WHOLES) if pick.random() < 0.8 else pick.getrandbits(64)
        return (number & (1 << 8 * size) - 1).to_bytes(size, "little")

    def fill(self, at: dict[str, int], size: int, start: int, node: int) -> bytes:
        """One `struct all`: `node` is the offset of its own `n`."""
        pick = self.random
        data = bytearray(pick.randbytes(size))
        for name, of in NAMES.items():
            found = self.value(of)
            data[at[name] : at[name] + len(found)] = found
        mine = start + node
        wild = [0, 8, mine, mine, mine, 0x10, 1 << 47, (1 << 64) - 4, 0xDEAD_BEEF_0000]
        for name in ("next", "p"):
            data[at[name] : at[name] + 8] = pick.choice(wild).to_bytes(8, "little")
        return bytes(data)


@pytest.fixture(scope="module")
def shared() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        s.debugger.start()
        s.run(CELL, "c")
        yield s
        s.check()


def layout(s: Session) -> Values:
    """Asked of the debugger: the session's own types."""
    found: dict[str, int] = {}

    def hear(event: Event) -> None:
        if event.kind == "stopped":
            ask = s.debugger.evaluate
            for name in (*NAMES, "n", "p"):
                found[name] = int(ask(f"(long)&from->{name} - (long)from").value)
            found["next"] = int(ask("(long)&from->n.next - (long)from").value)
            found["size"] = int(ask("sizeof *from").value)
            s.debugger.go()

    s.debugger.listener = hear
    s.debugger.set_breakpoints(CELL, [Breakpoint(line=LINE + 1, temporary=True)])
    s.call("run")
    return Values(found.pop("size"), found)


class Run(NamedTuple):
    """The turns in which a condition stopped, what was said, and how often somebody was asked."""

    turns: list[int]
    said: list[str]
    asked: int


def stops(s: Session, condition: str) -> Run:
    debugger = s.debugger
    engine = s.inspect.engine
    where = debugger.address_of("turn")
    turns: list[int] = []
    said: list[str] = []
    asked = 0

    def hear(event: Event) -> None:
        if event.kind == "output":
            said.append(event.text)
        if event.kind == "stopped":
            turns.append(int.from_bytes(engine.read(where, 8), "little"))
            debugger.go()

    executor = engine.executor
    assert executor.stops is not None
    screen = executor.stops.screen

    assert screen is not None

    def counting(stop: Stop) -> None:
        nonlocal asked
        asked += 1
        screen(stop)

    debugger.listener, executor.stops.screen = hear, counting
    debugger.set_breakpoints(CELL, [Breakpoint(line=LINE + 1, condition=condition)])
    try:
        s.call("run")
    finally:
        executor.stops.screen = screen
        debugger.set_breakpoints(CELL, [])
    return Run(turns, said, asked)


class Compared(NamedTuple):
    """So many evaluations, of which some stopped, and of others somebody was asked in vain."""

    evaluations: int
    stopped: int
    needless: int


def compared(s: Session, seed: int, count: int, patch: pytest.MonkeyPatch) -> Compared:
    """Random conditions with random values."""
    known, maker = layout(s), Maker(seed)
    arena = s.inspect.engine.arena
    start = s.debugger.address_of("values")
    evaluations = asked = stopped = 0
    for _ in range(count):
        for turn in range(_FEW):
            at = start + turn * known.size
            data = maker.fill(known.at, known.size, at, known.at["n"])
            arena.view[at - arena.base : at - arena.base + known.size] = data
        condition = maker.condition()
        mine = stops(s, condition)
        with patch.context() as patched:
            patched.setattr(Conditions, "programs", lambda self, at, asked: {})
            theirs = stops(s, condition)
        assert (mine.turns, mine.said) == (theirs.turns, theirs.said), condition
        assert theirs.asked == _FEW
        evaluations += _FEW
        asked += mine.asked
        stopped += len(mine.turns)
    return Compared(evaluations, stopped, asked - stopped)


def test_random_conditions(shared: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(shared, 7, 8, monkeypatch)
    assert found.evaluations == 8 * _FEW
    assert found.needless == 0
    assert found.stopped < found.evaluations * 2 // 3


@pytest.mark.soak
def test_many_conditions(
    shared: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(shared, 8, 400, monkeypatch)
    with capsys.disabled():
        print(found)
    assert found.needless < found.evaluations // 100


# -- case by case ----------------------------------------------------------------------------------

THREADS = """\
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int over;
long turns;
int work(int n) {
  int all = 0;
  for (int i = 0; i < n; i++)
    all += i;
  return all;
}
static void *run(void *n) { return (void *)(long)work((int)(long)n); }
long four(int n) {
  pthread_t ids[4];
  long all = 0;
  for (int i = 0; i < 4; i++) pthread_create(ids + i, 0, run, (void *)(long)n);
  for (int i = 0; i < 4; i++) { void *one; pthread_join(ids[i], &one); all += (long)one; }
  return all;
}
int forked(int n) {
  int status;
  pid_t child = fork();
  if (!child) _exit(work(n));
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}
int spin(void) {
  while (!over)
    turns++;
  return 5;
}
"""
BODY, SPINS = 9, 29


class Met:
    """A listener that notes the values of an expression where it stops, and counts who asks."""

    def __init__(self, s: Session, wanted: str):
        self.debugger, self.wanted = s.debugger, wanted
        self.values: list[str] = []
        self.reasons: list[str] = []
        self.said: list[str] = []
        self.asked = 0
        self.motions: list[Any] = []
        executor = s.inspect.engine.executor
        assert executor.stops is not None
        screen = executor.stops.screen
        assert screen is not None

        def counting(stop: Stop) -> None:
            self.asked += 1
            screen(stop)

        executor.stops.screen = counting
        self.debugger.listener = self.hear

    def hear(self, event: Event) -> None:
        if event.kind == "output":
            self.said.append(event.text)
        if event.kind == "stopped" and event.stopped is not None:
            self.values.append(self.debugger.evaluate(self.wanted).value)
            self.reasons.append(event.stopped.reason)
            self.debugger.go(self.motions.pop(0) if self.motions else "continue")


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as made:
        made.debugger.start()
        made.run(THREADS, "c")
        yield made
        made.check()


def test_hits_of_four_threads_are_counted(s: Session) -> None:
    """Each once, whoever counts it: what asks for another reason, and what does not."""
    met = Met(s, "i")
    for sign, stops in (("== 777", 1), (">= 1999", 2), ("% 500", 4), ("< 3", 2), ("% 0", 0)):
        met.values.clear()
        (point,) = s.debugger.set_breakpoints(
            THREADS, [Breakpoint(line=BODY, condition="i % 2 == 1", hit_condition=sign)]
        )
        assert s.call("four", 1000) == 4 * 499500
        assert (len(met.values), point.hits) == (stops, 2000)
        assert all(int(value) % 2 for value in met.values)
        s.debugger.set_breakpoints(THREADS, [])
    assert met.asked < 100


def test_hits_go_on_from_call_to_call(s: Session) -> None:
    met = Met(s, "i")
    (point,) = s.debugger.set_breakpoints(THREADS, [Breakpoint(line=BODY, hit_condition="== 25")])
    for hits in (10, 20, 30):
        assert s.call("work", 10) == 45
        assert (point.hits, s.debugger.breakpoints[0].hits) == (hits, hits)
    assert (met.values, met.asked) == (["4"], 1)


def test_a_child_counts_nothing(s: Session) -> None:
    met = Met(s, "i")
    (point,) = s.debugger.set_breakpoints(
        THREADS, [Breakpoint(line=BODY, condition="i == 2", hit_condition=">= 1")]
    )
    assert s.call("forked", 10) == 45
    assert (point.hits, met.asked) == (0, 0)


def test_an_error_is_told_where_it_is_met(s: Session) -> None:
    met = Met(s, "i")
    s.debugger.set_breakpoints(THREADS, [Breakpoint(line=BODY, condition="100 / (i - 5) == 1")])
    assert s.call("work", 10) == 45
    assert (met.values, met.asked) == (["5"], 1)
    assert met.said == [
        "condition `100 / (i - 5) == 1`: division by zero (column 5 of `100 / (i - 5) == 1`)\n"
    ]


@pytest.mark.parametrize(
    ("point", "asked"),
    [
        (Breakpoint(condition="i == 7"), 1),
        (Breakpoint(condition="(__int128)i == 7"), 10),
        (Breakpoint(condition="i == 7 || (all = all, 0)"), 10),
        (Breakpoint(condition="i == 7", log="{i}"), 10),
        (Breakpoint(condition="i == 7", temporary=True), 1),
        (Breakpoint(condition="sizeof(long double) == i - 9 || i == 7"), 1),
    ],
)
def test_who_is_asked(s: Session, point: Breakpoint, asked: int) -> None:
    met = Met(s, "i")
    point.line = BODY
    s.debugger.set_breakpoints(THREADS, [point])
    assert s.call("work", 10) == 45
    assert met.asked == asked
    assert met.values == ([] if point.log else ["7"])
    assert met.said == (["7\n"] if point.log else [])


def test_a_step_ends_where_a_condition_is_false(s: Session) -> None:
    met = Met(s, "i")
    met.motions = ["next"] * 6 + ["instruction"] * 12
    s.debugger.set_breakpoints(THREADS, [Breakpoint(line=BODY, condition="i == 2")])
    assert s.call("work", 20) == 190
    assert met.values[:7] == ["2", "2", "3", "3", "4", "4", "5"]
    assert met.reasons == ["breakpoint", *["step"] * 18]


def test_counts_begin_anew_when_the_debugger_is_started_again(s: Session) -> None:
    """Numbers of breakpoints come again, and what they were counted by does not."""
    for hit_condition, hits in ((">= 39", 40), (None, 10)):
        s.debugger.start()
        Met(s, "i")
        point = s.debugger.add(
            Breakpoint(source=THREADS, line=BODY, hit_condition=hit_condition or "")
        )
        assert s.call("work", hits) == hits * (hits - 1) // 2
        assert point.hits == hits
        s.debugger.close()


def test_two_at_one_line(s: Session) -> None:
    """Each has its own condition; of counts only what is met counts."""
    met = Met(s, "i")
    points = [s.debugger.add(Breakpoint(source=THREADS, line=BODY, condition=f"i == {n}"))
              for n in (3, 6)]  # fmt: skip
    assert s.call("work", 10) == 45
    assert (met.values, met.asked, [p.hits for p in points]) == (["3", "6"], 2, [1, 1])
    counting = Breakpoint(source=THREADS, line=BODY, condition="i > 4", hit_condition="== 3")
    points.append(s.debugger.add(counting))
    assert s.call("work", 10) == 45
    assert (met.values[2:], [p.hits for p in points]) == (["3", "6", "7"], [2, 2, 5])


def test_what_a_condition_reads_may_be_set(s: Session) -> None:
    met = Met(s, "n")
    s.debugger.set_breakpoints(THREADS, [Breakpoint(line=BODY, condition="i == over")])
    assert s.call("work", 10) == 45
    assert s.call("work", 0) == 0
    s.run("over = 4;", "c")
    assert s.call("work", 3) == 3
    assert s.call("work", 7) == 21
    assert (met.values, met.asked) == (["10", "7"], 2)


@pytest.mark.parametrize("how", ["pause", "interrupt", "breakpoint"])
def test_a_hot_condition_lets_others_in(s: Session, how: str) -> None:
    """While a thread does nothing but to find a condition false."""
    met = Met(s, "(over = 1)")
    s.debugger.set_breakpoints(THREADS, [Breakpoint(line=SPINS, condition="turns < 0")])
    if how == "pause":
        job: Callable[[], object] = s.debugger.pause
    elif how == "interrupt":
        job = s.interrupt
    else:
        changed = [Breakpoint(line=SPINS, condition="turns > 0")]
        job = partial(s.debugger.ask, partial(s.debugger.set_breakpoints, THREADS, changed))
    executor = s.inspect.engine.executor

    def late() -> None:
        while not executor.serving:
            time.sleep(0.01)
        time.sleep(0.1)
        job()

    thread = threading.Thread(target=late)
    thread.start()
    if how == "interrupt":
        with pytest.raises(Interrupted):
            s.call("spin")
    else:
        assert s.call("spin") == 5
    thread.join()
    assert met.reasons == {"interrupt": []}.get(how, [how])
    assert met.asked <= 3


TICKS = """\
#include <signal.h>
#include <sys/time.h>
volatile long ticks, spins;
void tick(int s) {
  ticks++;
}
long count(long most) {
  struct itimerval often = {{0, 1000}, {0, 1000}}, never = {0};
  signal(SIGALRM, tick);
  setitimer(ITIMER_REAL, &often, 0);
  while (ticks < most)
    spins++;
  setitimer(ITIMER_REAL, &never, 0);
  return ticks;
}
"""


def test_a_handler_that_interrupts_a_thread_in_a_copy_stops(s: Session) -> None:
    """The signal comes while the other breakpoint is decided, so it is met first in the copy."""
    s.run(TICKS, "c")
    met = Met(s, "ticks")
    met.motions = ["next", "continue", "continue"] * 10
    points = [Breakpoint(line=5), Breakpoint(line=12, condition="spins < 0")]
    s.debugger.set_breakpoints(TICKS, points)
    assert s.call("count", 20) >= 20
    assert met.reasons.count("breakpoint") >= 20


IR = """\
define i32 @loop(i32 %n) {
entry:
  br label %turn
turn:
  %i = phi i32 [ 0, %entry ], [ %next, %turn ]
  %x = sitofp i32 %i to double
  %odd = trunc i32 %i to i1
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %turn, label %out
out:
  ret i32 %next
}
"""


@pytest.mark.parametrize(
    "condition", ["%i == 7", "%x == 7.0", "%i>5&&%odd&&%i<8", "%n - %i == 13", "%odd == (%i == 7)"]
)
def test_values_of_llvm(s: Session, condition: str) -> None:
    s.run(IR)
    met = Met(s, "%i")
    s.debugger.set_breakpoints(IR, [Breakpoint(line=8, condition=condition)])
    assert s.call("loop", 20) == 20
    assert "7" in met.values
    assert met.asked == len(met.values)
