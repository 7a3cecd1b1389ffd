"""What fails fails twice, or while threads run, or with data that code has written: whole all the
same."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
from collections.abc import Callable
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.arena import Arena
from jitkernel.errors import Fault, JitError
from jitkernel.linker import Linker, Symbol
from jitkernel.linker.binding import Bindings
from jitkernel.session.history.undo import UndoHistory
from jitkernel.session.run.results import Collector
from jitkernel.session.saved.tables import Tables
from tests.busy import until
from tests.interruption import Torn
from tests.looping import looping

T = "define i32 @t(i32 %x) {\n  %r = add i32 %x, 1\n  ret i32 %r\n}"
#: Its constructor and its destructor write a variable of another cell.
MADE = """extern int n;
__attribute__((constructor)) void ini(void) { n = 77; }
__attribute__((destructor)) void fin(void) { n = 88; }"""
THREAD = "volatile int answer;\nint slow(int x) { return x; }\n" + looping("answer = slow(5);")
#: The thread is in the new `@slow`, asleep, when the constructor fails.
WORSE = """#include <unistd.h>
int slow(int x) { usleep(300000); return x + 1; }
__attribute__((constructor)) void bad(void) { usleep(100000); *(volatile int *)0; }"""


@pytest.fixture
def s():
    with Session(capacity=64 << 20, object_cache=False, spare=False) as session:
        yield session
        session.check()


def failing(function: Callable[..., Any], times: int = 1, after: bool = False) -> Any:
    """The function, which raises the first times that it is called: at once, or when it is done."""
    left = times

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            if after:
                function(*arguments, **named)
            raise Torn("again")
        return function(*arguments, **named)

    return call


def test_what_cannot_be_put_in_order_at_once_is_over_all_the_same(s, monkeypatch):
    """The next operation is one of its own: whole, and a signal ends it."""
    s.run(T)
    with monkeypatch.context() as patch:
        patch.setattr(s._core.texts, "settle", failing(s._core.texts.settle), raising=False)
        ordered, failures = s._core.restore_order, iter([False, False])

        def restore() -> None:
            if next(failures, True):
                raise Torn("again")
            ordered()

        patch.setattr(s._core, "restore_order", restore)
        with pytest.raises(Torn):
            s.run("@n = global i32 1")
    assert not s._core.operating and not s.inspect.engine.running and not s.inspect.engine.stopping
    assert s.run(T.replace("add", "sub") + "\n@t(5)").value == 4
    assert not s.inspect.engine.arena.rollback.open


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(
    "step", [lambda s: s.evict("ini"), lambda s: s.undo(2), lambda s: s.reset()]
)
def test_data_that_destructors_wrote_is_as_before(s, monkeypatch, step, twice):
    s.run("@n = global i32 5")
    s.run(MADE, "c")
    s.run("@n = 6")
    rollback = s.inspect.engine.arena.rollback
    with monkeypatch.context() as patch:
        patch.setattr(Linker, "unlink", failing(Linker.unlink))
        if twice:
            patch.setattr(rollback, "before", failing(rollback.before))
        with pytest.raises(Torn):
            step(s)
    assert s["n"].value == 6 and "ini" in s
    s.check()
    step(s)  # and once more, to the end
    assert "ini" not in s


@pytest.mark.parametrize("twice", [False, True])
def test_data_that_constructors_wrote_is_as_before(s, monkeypatch, twice):
    s.run("@n = global i32 5\n@untouched = global [65536 x i8] zeroinitializer")
    rollback = s.inspect.engine.arena.rollback
    with monkeypatch.context() as patch:
        patch.setattr(UndoHistory, "keep", failing(UndoHistory.keep))
        if twice:
            patch.setattr(rollback, "before", failing(rollback.before))
        with pytest.raises(Torn):
            s.run(MADE, "c")
    assert s["n"].value == 5 and "ini" not in s


def test_what_was_done_keeps_what_its_constructors_wrote(s, monkeypatch):
    """It fails when the block has ended already."""
    s.run("@n = global i32 5")
    rollback, keep = s.inspect.engine.arena.rollback, UndoHistory.keep
    with monkeypatch.context() as patch:

        def kept(*arguments: Any) -> None:
            keep(*arguments)
            patch.setattr(rollback, "_leave", failing(rollback._leave, after=True))

        patch.setattr(UndoHistory, "keep", kept)
        with pytest.raises(Torn):
            s.run(MADE, "c")
    assert "ini" in s and s["n"].value == 77


def test_what_a_thread_came_to_use_stays_when_it_is_taken_back(s):
    """The thread is in a function whose cell fails while it runs constructors."""
    s.run(THREAD, "c")
    s.call("start")
    pid = s.inspect.engine.executor.pid
    with pytest.raises(Fault):
        s.run(WORSE, "c")
    assert s.call("slow", 5) == 5
    s.check()
    s.call("finish")
    assert s.inspect.engine.executor.pid == pid and s["answer"].value in (5, 6)
    # What was kept for the thread goes, a moment after it was waited for.
    assert until(lambda: s.run(T) and not s.inspect.engine.arena.deferred)


def test_text_is_taken_back_while_threads_are_parked(s, monkeypatch):
    s.run(THREAD, "c")
    s.call("start")
    seen: list[bool] = []
    symbols: list[Symbol] = []
    again, rebind = Arena._bytes_again, Bindings.rebind

    def note(bind: Bindings, symbol: Symbol, was: int | None = None) -> None:
        if was is None:  # what follows is put in order again
            seen.append(s.inspect.engine._parked)
            symbols.append(symbol)
        else:
            rebind(bind, symbol, was)

    def look(arena: Arena, start: int, data: bytes) -> None:
        seen.append(s.inspect.engine._parked)
        again(arena, start, data)

    with monkeypatch.context() as patch:
        patch.setattr(Arena, "_bytes_again", look)
        patch.setattr(Bindings, "rebind", note)
        patch.setattr(UndoHistory, "keep", failing(UndoHistory.keep))
        with pytest.raises(Torn):
            s.run("define i32 @slow(i32 %x) {\n  ret i32 7\n}")
    assert seen and all(seen) and not s.inspect.engine._parked
    with s.inspect.engine.world_stopped:  # or the thread may run a call that is half written
        s.inspect.engine.linker._repair(symbols)
    assert s.call("slow", 5) == 5
    s.call("finish")


def test_what_could_not_be_written_to_the_file_stays_to_be_written(s, monkeypatch):
    s.run(T)
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "drop", failing(Tables.drop))
        with pytest.raises(Torn):
            s.frontend.idle()
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "put", failing(Tables.put))
        with pytest.raises(Torn):
            s.frontend.idle()
    assert s.source(1) == T
    s.frontend.idle()
    assert s.source(1) == T and s.inspect.store.numbers() == [1]


def test_a_file_outlives_a_write_that_failed(tmp_path, monkeypatch):
    path = str(tmp_path / "kept.jks")
    settings = {"object_cache": False, "spare": False, "store_path": path, "autosave": True}
    with Session(capacity=64 << 20, **settings) as s:
        s.run(T)
        s.run(T.replace("@t", "@u"))
        s.inspect.store.put(s.inspect.store.get(1))
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "drop", failing(Tables.drop))
            with pytest.raises(Torn):
                s.inspect.store.flush()
    with Session.restore(path, object_cache=False, spare=False) as s:
        assert s.call("t", 1) == s.call("u", 1) == 2


def test_numbers_of_states_are_not_given_twice(s):
    """What somebody remembers by such a number, seen in a block that failed, is never taken for
    what came later."""
    linker = s.inspect.program.linker
    s.run(T)
    other = s.compile(T.replace("@t", "@a")).compiled.object
    before = linker.generation, linker.unwind.generation
    with pytest.raises(Torn), s.inspect.engine.arena.rollback.atomic():
        linker.place(other, 7)
        seen = linker.generation, linker.unwind.generation
        raise Torn
    assert linker.generation == before[0] and linker.unwind.generation != seen[1]
    s.run(T.replace("@t", "@b"))
    assert linker.generation != seen[0] and linker.unwind.generation != seen[1]


def test_two_presses_end_one_operation(s, monkeypatch):
    """The second one comes while the first is handed on."""

    def raising(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, raising)
    try:
        restored = _signal.signal

        def press(number: int, handler: Any) -> None:
            restored(number, handler)
            if handler is raising:
                signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr("jitkernel.session.interruption._signal.signal", press)
            patch.setattr(
                s.inspect.residency, "trim", lambda: signal.raise_signal(signal.SIGINT), False
            )
            with pytest.raises(KeyboardInterrupt):
                s.run(T)
        assert s.run("@t(5)").value == 6
        assert signal.getsignal(signal.SIGINT) is raising
    finally:
        signal.signal(signal.SIGINT, before)


SAY = """#include <stdio.h>
#include <unistd.h>
int say(void) { puts("hi"); fflush(stdout); return usleep(50000); }"""


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.evict("t", force=True), lambda s: s.undo(), lambda s: s.reset(),
        lambda s: s.run("%x = add i32 1, 2"), lambda s: s.call("t", 1),
    ],
)  # fmt: skip
def test_what_a_sink_may_not_do_leaves_the_call_as_it_was(s, step):
    """It is called while code runs; the cell goes on, and nothing is left of what was refused."""

    class Asking(Collector):
        error: BaseException | None = None

        def output(self, name: str, data: bytes) -> None:
            try:
                step(s)
            except JitError as error:
                self.error = error

    s.run(T)
    s.run(SAY, "c")
    s.run("%a = add i32 1, 2")
    sink = Asking()
    assert s.run("%v = call i32 @say()\n%w = call i32 @t(i32 1)", sink=sink).value == 2
    assert sink.error is not None and "running" in str(sink.error)
    s.run("%a = add i32 1, 2")
    assert s.call("t", 1) == 2 and s.inspect.program.running == ()
    s.check()
    held = {c.image.text.start for c in s.cells if c.image is not None and c.image.text}
    known = held | {i.text.start for i in s.inspect.engine.thunks.images if i.text}
    stubs = {symbol.stub for symbol in s.inspect.program.linker.symbols.values() if symbol.stub}
    assert s.inspect.engine.arena.zones["text"].list.live.keys() <= known | stubs
