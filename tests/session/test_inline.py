"""Code that runs in this process: what is other than with a process of its own.

That everything else is the same, the other tests of this folder show, which run over both.  What
may end the process runs in another one here.
"""

from __future__ import annotations

import array
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path

import pytest
from programs import CUBE, SQ, constant

from jitkernel import Session
from jitkernel.arena.zone import Zone
from jitkernel.errors import Exited, JitError, UndefinedSymbol, UsageError
from jitkernel.executor import own_map
from jitkernel.executor.own_map import OwnMap
from jitkernel.session.program.cell import CellState
from tests.busy import until
from tests.processes import gone

ROOT = str(Path(__file__).resolve().parents[2])
SUM = """double sum(double *p, long n) {
  double s = 0;
  for (long i = 0; i < n; i++) s += p[i]++;
  return s;
}"""
BACK = "int back(int (*f)(int), int x) { return f(x) + 1; }"
#: Its constructor calls what nobody defines.
STARTS_BADLY = """declare void @nobody()
define void @begin() {
  call void @nobody()
  ret void
}
@llvm.global_ctors = appending global [1 x {i32, ptr, ptr}] [{i32, ptr, ptr} {i32 1, ptr @begin, ptr null}]
"""
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


@pytest.fixture
def s(fresh: Callable[..., Session]) -> Session:
    return fresh(executor="inline")


def program(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in which `s` is an inline session, in a process of its own."""
    head = "import os, sys\nfrom jitkernel import Session\n"
    head += "s = Session(executor='inline', capacity=64 << 20)\n"
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": ROOT}, check=False,
    )  # fmt: skip


# -- where the code is -----------------------------------------------------------------------------


def _words(address: int, number: int) -> list[int]:
    return (ctypes.c_uint64 * number).from_address(address)[:]


def maps() -> list[list[str]]:
    with open("/proc/self/maps") as file:
        return [line.split() for line in file]


def test_no_address_is_writable_and_executable_and_code_runs_here(s: Session) -> None:
    before = len([line for line in maps() if "w" in line[1] and "x" in line[1]])
    s.run("declare i32 @getpid()\n" + SQ)
    assert s.run("@getpid()").value == os.getpid() == s.inspect.engine.executor.pid
    slab = [line[1] for line in maps() if "/memfd:jitkernel" in line and "worker" not in line[-2]]
    assert any("x" in access for access in slab) and any("w" in access for access in slab)
    both = [line for line in maps() if "w" in line[1] and "x" in line[1]]
    assert len(both) == before, "nor is anything else"
    page = s["sq"].address & -4096
    s.run("declare i32 @mprotect(ptr, i64, i32)")
    assert s.call("mprotect", page, 4096, 7) == -1, "the system refuses it"
    assert s.call("sq", 3) == 9


def test_each_session_has_a_base_of_its_own_and_a_high_one_where_it_must(
    fresh: Callable[..., Session],
) -> None:
    sessions = [fresh(executor="inline", capacity=1 << 30) for _ in range(3)]
    for number, session in enumerate(sessions):
        session.run(f"@g = global i32 {number}\n@p = global ptr @f\n" + constant("f", number))
        session.run("define i32 @get() {\n  %v = load i32, ptr @g\n  ret i32 %v\n}")
    bases = [session.inspect.engine.arena.base for session in sessions]
    assert max(bases) > 1 << 32, "two slabs of 1 GiB are not both below 2 GiB"
    for number, session in enumerate(sessions):
        assert session.call("f") == session.call("get") == number
        session.hibernate("f")
        assert session.call("f") == number and session["p"].value == session["f"].address
        session.run("@g = global i32 77")
        assert session.call("get") == 77
        session.undo()
        assert session.call("get") == number
        session.check()


def test_a_base_that_is_taken_is_refused_in_plain_words(s: Session, tmp_path: Path) -> None:
    s.run(SQ)
    path = str(tmp_path / "work.jks")
    s.save(path)
    with pytest.raises(UsageError, match=r"are taken in this process.*executor=\"process\""):
        Session.restore(path, executor="inline")
    with Session.restore(path, executor="process") as other:
        assert other.call("sq", 5) == 25
        assert other.settings.executor == "process"
    s.close()
    with Session.restore(path, executor="inline") as other:
        assert other.call("sq", 5) == 25 and other.inspect.engine.executor.pid == os.getpid()


def test_the_executor_is_no_setting_of_the_file(s: Session, tmp_path: Path) -> None:
    s.run(SQ)
    s.save(str(tmp_path / "work.jks"))
    s.close()
    with Session.restore(str(tmp_path / "work.jks")) as other:
        assert other.call("sq", 5) == 25 and other.inspect.engine.executor.pid != os.getpid()


def test_nothing_stays_mapped_or_open(fresh: Callable[..., Session]) -> None:
    def state() -> tuple[int, list[str]]:
        return len(os.listdir("/proc/self/fd")), [m for m in map(str, maps()) if "jitkernel" in m]

    fresh(executor="inline").close()  # what is loaded once
    before = state()
    for _ in range(3):
        with Session(executor="inline", capacity=64 << 20) as session:
            session.run(SQ)
            assert session.call("sq", 3) == 9
    assert state() == before


def test_where_all_is_taken_below_2_gib_there_is_room_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_map.OwnMap, "_rooms", lambda self: [])
    place = OwnMap(1 << 20)
    assert place.base > 1 << 32
    nowhere = place.base - (256 << 20)  # where code looks for a variable that is gone
    spans = [(*(int(x, 16) for x in line[0].split("-")), line[1]) for line in maps()]
    assert [access for low, high, access in spans if low <= nowhere < high] == ["---p"]
    with pytest.raises(UsageError, match="are taken"):
        OwnMap(1 << 20, place.base)
    place.close()
    place.close()


# -- calls -----------------------------------------------------------------------------------------


def test_a_ctypes_function_follows_what_happens_to_the_function(s: Session) -> None:
    s.run(SQ)
    f = s["sq"].ctypes
    assert f(7) == 49
    s.run(CUBE.replace("@cube", "@sq"))
    assert f(3) == s["sq"](3) == 27
    s.undo()
    assert f(3) == 9
    s.hibernate("sq")
    assert f(5) == 25 and s.cells[0].state is CellState.LIVE
    s.evict("sq", force=True)
    s.run(SQ.replace("mul", "add"))
    assert f(5) == 10
    s.check()
    s.close()
    with pytest.raises(UsageError, match="closed"):
        f(5)


def test_what_ctypes_cannot_pass_is_refused(s: Session, fresh: Callable[..., Session]) -> None:
    s.run(
        "define <4 x i32> @v(<4 x i32> %x) {\n  ret <4 x i32> %x\n}\n"
        "define fastcc i32 @fast(i32 %x) {\n  ret i32 %x\n}\n"
        "define void @by(ptr byval({ i64, i64, i64 }) %x) {\n  ret void\n}\n"
        "declare i32 @printf(ptr, ...)\n@g = global i32 1"
    )
    for name in ("v", "fast", "by"):
        with pytest.raises(UsageError, match="call it by the session"):
            _ = s[name].ctypes
    with fresh() as other:
        other.run(SQ)
        with pytest.raises(UsageError, match=r'executor="inline"'):
            _ = other["sq"].ctypes


def test_small_integers_keep_their_values(s: Session) -> None:
    s.run(
        "define zeroext i8 @u(i8 zeroext %x) {\n  %r = add i8 %x, 1\n  ret i8 %r\n}\n"
        "define signext i16 @i(i16 signext %x) {\n  %r = sub i16 %x, 1\n  ret i16 %r\n}\n"
        "define i1 @odd(i32 %x) {\n  %r = trunc i32 %x to i1\n  ret i1 %r\n}\n"
        "define float @half(float %x) {\n  %r = fmul float %x, 5.0e-1\n  ret float %r\n}"
    )
    for name, given in [("u", 5), ("u", -3), ("i", -30000), ("i", 7), ("odd", 6), ("odd", 7)]:
        assert s[name].ctypes(given) == s.call(name, given) == s.call(name, given), (name, given)
    assert s["half"].ctypes(3.0) == s.call("half", 3.0) == s.call("half", 3.0) == 1.5


def test_the_second_call_is_the_first_one(s: Session) -> None:
    """From the second call on scalars take a short way: same values, same errors."""
    s.run(SQ + "\ndefine double @d(double %x) {\n  ret double %x\n}\n"
          "define ptr @p(ptr %x) {\n  ret ptr %x\n}\ndefine i1 @b(i1 %x) {\n  ret i1 %x\n}")  # fmt: skip
    table = [
        ("sq", 5), ("sq", 2**32 - 1), ("sq", True), ("sq", "x"), ("sq", 2**40), ("sq", 1.5),
        ("sq", None), ("d", 1.5), ("d", 3), ("d", float("inf")), ("d", "x"), ("d", True),
        ("p", 4096), ("p", -1), ("p", None), ("p", 1.5), ("b", True), ("b", 0), ("b", 2),
    ]  # fmt: skip

    def result(name: str, value: object) -> object:
        try:
            found = s.call(name, value)
            return type(found), found
        except UsageError as error:
            return str(error)

    with Session(capacity=64 << 20) as other:
        for cell in s.cells:
            other.run(s.source(cell.number))
        for name, value in table:
            first, second = result(name, value), result(name, value)
            try:
                wanted: object = other.call(name, value)
                wanted = type(wanted), wanted
            except UsageError as error:
                wanted = str(error)
            assert first == second == wanted, (name, value)
    for bad in ((), (1, 2)):
        s.call("sq", 2)
        with pytest.raises(UsageError, match="takes 1 argument "):
            s.call("sq", *bad)


def test_memory_of_arguments_is_used_as_it_is(s: Session) -> None:
    s.run(SUM, "c")
    data = array.array("d", range(5))
    place = data.buffer_info()[0]
    for call in (s["sum"], s["sum"], s["sum"].ctypes, lambda *a: s.call("sum", *a)):
        before = sum(data)
        assert call(data, 5) == before and sum(data) == before + 5
        assert call(place, 5) == before + 5, "by address"
    view = memoryview(bytearray(40))
    assert s["sum"](view, 5) == s["sum"](view, 0) == 0
    assert view.cast("d")[4] == 1.0
    numbers = (ctypes.c_double * 5)(1, 2, 3, 4, 5)
    assert s["sum"](numbers, 5) == 15 and numbers[0] == 2.0


def test_ctypes_is_told_what_c_says(s: Session) -> None:
    """Signs, and pointers by the names from which scipy makes a signature."""
    pytest.importorskip("ziglang")
    s.run(
        "unsigned all(void) { return -1; }\nunsigned long more(void) { return -1; }\n"
        "short less(void) { return -1; }\nstruct pt { double x; int k; };\n"
        "double get(struct pt p) { return p.x; }\n"
        "double f(int n, const double *x, void *rest) { return x[n]; }",
        "c",
    )
    for name, value in (("all", 2**32 - 1), ("more", 2**64 - 1), ("less", -1)):
        assert s[name]() == s[name].ctypes() == value
    assert [kind.__name__ for kind in s["f"].ctypes.argtypes] == ["c_int", "LP_double", "LP_void"]
    with pytest.raises(UsageError, match=r"double get\(struct pt p\)\) passes more than numbers"):
        _ = s["get"].ctypes


def test_an_array_by_columns_is_refused(s: Session) -> None:
    numpy = pytest.importorskip("numpy")
    s.run("define void @set(ptr %p) {\n  store double 5.0, ptr %p\n  ret void\n}")
    data = numpy.zeros((3, 2)).T
    for call in (s["set"], s["set"], s["set"].ctypes):
        with pytest.raises((UsageError, ctypes.ArgumentError), match="row by row"):
            call(data)
        assert not data.any()
        call(data.T)
        assert data[0, 0] == 5
        data[:] = 0


def test_a_function_of_ctypes_is_no_memory(s: Session) -> None:
    """It has a buffer, with its address in it, which is not to be called."""
    s.run("define i32 @apply(ptr %f, i32 %x) {\n  %r = call i32 %f(i32 %x)\n  ret i32 %r\n}")
    s.run("define i32 @twice(i32 %x) {\n  %r = mul i32 %x, 2\n  ret i32 %r\n}")
    given = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda x: x + 1)
    for _ in range(2):  # the second call is a direct one
        assert s["apply"](s["twice"], 4) == 8
        with pytest.raises(UsageError, match=r"session.export_python makes of it"):
            s["apply"](given, 4)
    assert s["apply"].ctypes(given, 4) == 5
    assert s["apply"].ctypes(s["twice"].ctypes, 4) == 8


def test_what_nobody_defines_and_exit_end_the_call_alone(s: Session) -> None:
    s.run("declare i32 @never()\ndeclare void @exit(i32)\n" + constant("one", 1))
    s.run("define i32 @f() {\n  %r = call i32 @never()\n  ret i32 %r\n}\n"
          "define void @out(i32 %x) {\n  call void @exit(i32 %x)\n  ret void\n}")  # fmt: skip
    for _ in range(3):  # the ordinary way, then the short one
        with pytest.raises(UndefinedSymbol) as undefined:
            s.call("f")
        assert undefined.value.symbol == "never"
        with pytest.raises(Exited, match="exit"):
            s.call("out", 3)
        assert s.call("one") == 1
    s.run(constant("never", 8))
    assert s.call("f") == 8


def test_code_may_call_python_and_that_may_call_code(s: Session) -> None:
    s.run(SQ)
    s.run(BACK, "c")
    s.run(
        "declare i32 @never()\ndefine i32 @bad(i32 %x) {\n  %r = call i32 @never()\n  ret i32 %r\n}"
    )
    seen: list[object] = []

    def calls(x: int) -> int:
        if s._core.operating:  # else this is a call by ctypes, of which the session knows nothing
            with pytest.raises(UsageError, match="code of the program is running"):
                s.run(CUBE)
        with pytest.raises(UndefinedSymbol):
            s.call("bad", 1)
        seen.append(s.call("sq", x))
        return int(s["sq"](x))

    function = CALLBACK(calls)
    address = ctypes.cast(function, ctypes.c_void_p).value
    for _ in range(3):
        assert s.call("back", address, 3) == 10
    assert s["back"].ctypes(address, 3) == 10
    assert seen == [9] * 4
    s.check()


def test_a_wake_on_a_thread_of_python_waits_for_the_session(s: Session) -> None:
    s.run(SQ)
    f = s["sq"].ctypes
    found: list[int] = []
    for _ in range(10):
        s.hibernate("sq")
        thread = threading.Thread(target=lambda: found.append(f(4)))
        with s._core.lock:
            thread.start()
            time.sleep(0.002)
            assert s.cells[0].state is CellState.HIBERNATED, "nobody else changes the program"
        thread.join(30)
    assert found == [16] * 10
    s.check()


def test_a_wake_is_served_while_a_call_waits_for_it(s: Session) -> None:
    """A call of the session waits for a thread, which has called hibernated code."""
    s.run(SQ)
    s.run(BACK, "c")
    f = s["sq"].ctypes

    def waits(x: int) -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(f(x)))
        thread.start()
        thread.join(30)
        return found[0]

    function = CALLBACK(waits)
    for _ in range(3):
        s.hibernate("sq")
        assert s.call("back", ctypes.cast(function, ctypes.c_void_p).value, 6) == 37
    s.check()


# -- what takes a process of its own ---------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", [{"cell_timeout": 1.0}, {"executor_memory_limit": 1 << 30}, {"stack_size": 1 << 20},
                {"env": {"A": "b"}}, {"cwd": "/"}],
)  # fmt: skip
def test_settings_that_take_a_process_are_refused(setting: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(setting))} has no meaning"):
        Session(executor="inline", **setting)


def test_no_other_executors_and_none_later(s: Session) -> None:
    with pytest.raises(UsageError, match="there are process, inline"):
        Session(executor="thread")
    with pytest.raises(UsageError, match="no meaning"):
        s.configure("cell_timeout", 1.0)
    with pytest.raises(UsageError, match="nobody can replace"):
        s.respawn()


def test_data_that_is_read_is_not_taken_away_by_force(s: Session) -> None:
    s.run("@g = global i32 5")
    s.run("define i32 @get() {\n  %v = load i32, ptr @g\n  ret i32 %v\n}")
    with pytest.raises(UsageError, match="would end this process"):
        s.evict("g", force=True)
    assert s.call("get") == 5
    assert [c.number for c in s.evict("g", cascade=True)] == [2, 1]


def test_a_forked_child_is_told_that_the_session_is_not_its(s: Session) -> None:
    s.run(SQ)
    f, direct = s["sq"], s["sq"].ctypes
    assert f(3) == f(3) == 9
    read, write = os.pipe()
    child = os.fork()
    if not child:
        words = []
        for call in (f, lambda x: s.call("sq", x), lambda x: s.run("@sq(1)")):
            try:
                words.append(str(call(3)))
            except JitError as error:
                words.append(str(error))
        s.close()  # of no effect here
        words.append(str(direct(4)))
        os.write(write, "\n".join(words).encode())
        os._exit(0)
    os.waitpid(child, 0)
    words = os.read(read, 10000).decode().split("\n")
    os.close(read)
    os.close(write)
    assert words[3] == "16" and all("fork" in w for w in words[:3])
    assert f(3) == 9 and s.run("@sq(5)").value == 25


def test_the_unwinder_finds_no_record_that_goes(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other libraries of this process throw between calls, and while the program changes: what is
    thrown past session code is looked for in its table."""
    known = s._core.engine.executor._known  # type: ignore[attr-defined]
    gone = []

    def listed() -> list[int]:
        table = _words(known.object, 5)[3]
        return _words(table + 16, _words(table, 2)[1])

    def checked(zone: Zone, was: Callable[..., object], start: int, stop: int) -> object:
        if zone.name == "unwind" and stop > start:
            gone.append([fde for fde in listed() if start <= fde < stop])
        return was(zone, start, stop)

    for name in ("fill", "punch"):
        monkeypatch.setattr(Zone, name, partialmethod(checked, getattr(Zone, name)))
    s.run(SQ)
    s.run(constant("many", 1))
    for value in range(2, 5):
        assert s["many"]() == value - 1 and len(listed()) >= 2
        s.run(constant("many", value))
    s.undo()
    s.redo()
    s.hibernate("sq")
    assert s["sq"](3) == 9
    with pytest.raises(UndefinedSymbol):
        s.run(STARTS_BADLY)
    s.evict("many")
    assert s["sq"](3) == 9 and len(listed()) >= 1
    assert gone and not any(gone)


def test_a_child_that_a_cell_forks_ends_with_the_cell() -> None:
    done = program(
        "s.run('declare i32 @fork()\\ndeclare i32 @wait(ptr)\\n"
        "define i32 @twice() {\\n  %p = call i32 @fork()\\n  ret i32 %p\\n}')\n"
        "print('child', s.call('twice') > 0, flush=True)\nos.wait()\n"
    )
    assert done.stdout == "child True\n", done


def test_output_is_this_process_s_own_and_results_have_none() -> None:
    done = program(
        "r = s.run('@puts(\"hey\")')\n"
        "print(repr(r.stdout), flush=True)\ns.run('@puts(\"there\")')\nprint('end')\n"
    )
    assert done.stdout == "hey\n''\nthere\nend\n", "C's buffer is written when a call ends"


def test_a_fault_ends_the_process_and_its_helpers() -> None:
    done = program(
        "s.run('define void @f() {\\n  store volatile i32 1, ptr null\\n  ret void\\n}')\n"
        "print(*[pid for pid, _, _ in s.inspect.engine.pool.processes()], flush=True)\ns.call('f')\n"
    )
    assert done.returncode == -11, done
    workers = [int(pid) for pid in done.stdout.split()]
    assert all(gone(pid) for pid in workers), workers


def test_what_nobody_defines_is_named_where_the_process_has_to_end() -> None:
    done = program(
        "s.run('declare i32 @never()\\n"
        "define i32 @f() {\\n  %r = call i32 @never()\\n  ret i32 %r\\n}')\n"
        "s['f'].ctypes()\n"
    )
    assert done.returncode == -6 and "@never was called past the session" in done.stderr, done


def test_ctrl_c_ends_the_operation_when_the_code_returns() -> None:
    done = program(
        "import signal\n"  # which comes while the code runs
        "s.run('declare i32 @raise(i32)\\ndefine i32 @gets(i32 %signal) {\\n"
        "  %a = call i32 @raise(i32 %signal)\\n  ret i32 %a\\n}')\n"
        "try:\n  s.call('gets', signal.SIGINT)\nexcept KeyboardInterrupt:\n  print('stopped')\n"
        "print(s.call('gets', 0))\ns.check()\n"
    )
    assert done.stdout == "stopped\n0\n", done


def test_threads_of_the_program_keep_code_as_it_is_and_live_on() -> None:
    done = program(
        "import time\n"
        "from tests.looping import looping\n"
        "s.run('volatile int ticks;\\n' + looping('usleep(1000); ticks++;', 'begin'), 'c')\n"
        "s.run('define i32 @one() {\\n  ret i32 1\\n}')\n"
        "s.call('begin')\n"
        "print(s.inspect.engine.executor.threads, s.call('one'))\n"
        "try:\n  s.run('define i32 @one() {\\n  ret i32 2\\n}')\n"
        "except Exception as error:\n  print(type(error).__name__, 'pthread_join' in str(error))\n"
        "print(s.call('one'))\n"
        "if len(sys.argv) < 2:\n"
        "  s['stop'].value = 1\n"
        "  while s.inspect.engine.executor.threads: time.sleep(0.001)\n"
        "  s.run('define i32 @one() {\\n  ret i32 2\\n}')\n  print(s.call('one'))\n  s.check()\n"
        "  s['stop'].value = 0\n  s.call('begin')\n"
        "s.close()\ntime.sleep(0.05)\nprint('alive', flush=True)\nos._exit(0)\n"
    )
    assert done.stdout == "1 1\nUsageError True\n1\n2\nalive\n", done


def test_threads_of_others_are_not_the_programs(s: Session) -> None:
    s.run(SQ)
    assert s.call("sq", 2) == s.call("sq", 2) == 4
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert s.call("sq", 2) == 4 and s.inspect.engine.executor.threads == 0
        s.run(SQ.replace("mul", "add"))
        s.hibernate("sq")
        assert s.call("sq", 3) == 6
        s.check()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_memory_is_counted_once(s: Session) -> None:
    s.run(SQ)
    account = s.memory()
    assert account["executor"] == 0 and account["slab"] > 0


THREADS = """#include <pthread.h>
long w0(long), w1(long), w2(long);
void *body(void *p) { return (void *)w2(w1(w0(1))); }
long beside(int (*callback)(int)) {
  pthread_t t, u;
  void *r;
  pthread_create(&t, 0, body, 0);
  pthread_create(&u, 0, body, 0);
  int x = callback(3);
  pthread_join(t, &r);
  pthread_join(u, &r);
  return (long)r + x;
}"""


def test_threads_get_code_while_the_caller_is_back_in_python(s: Session) -> None:
    """One at a time changes the program: a thread that needs code, and the caller in a callback,
    whether the session knows of that or ctypes alone."""
    for i in range(4):
        s.run(f"define i64 @w{i}(i64 %x) {{\n  %r = add i64 %x, {i}\n  ret i64 %r\n}}")
    s.run(THREADS, "c")
    s.export_python("told", lambda x: int(s.call("w3", x)), "i32 (i32)")
    s.run("define ptr @where() {\n  ret ptr @told\n}")
    by_ctypes = CALLBACK(lambda x: int(s.call("w3", x)))
    addresses = int(s.call("where")), ctypes.cast(by_ctypes, ctypes.c_void_p).value
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for round in range(60):
            assert until(lambda: not s.inspect.engine.executor.threads)
            s.hibernate("w0", "w1", "w2", "w3", "body")
            assert s.call("beside", addresses[round % 2]) == 1 + 1 + 2 + 6
            s.check()
    finally:
        sys.setswitchinterval(before)
