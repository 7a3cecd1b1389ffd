"""An interrupt that was asked for while a call ran ends the cell, whatever the call itself did."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from time import sleep

import pytest
from programs import interrupting

from jitkernel import Session
from jitkernel.errors import Interrupted
from jitkernel.languages import Known, plan, registry
from jitkernel.languages.llvm.plan import Plan
from jitkernel.session.interruption import InterruptibleCall, Signals
from tests.busy import meanwhile

pytestmark = pytest.mark.process

NAP = """@n = global i32 0
declare i32 @sleep(i32)
define void @nap() {
  %r = tail call i32 @sleep(i32 1000)
  ret void
}
define i32 @doze() {
  %r = tail call i32 @sleep(i32 1000)
  ret i32 %r
}"""
LEAVING = """@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 1, ptr @leave, ptr null }]
define internal void @leave() {
  tail call void @nap()
  ret void
}
declare void @nap()
"""


@pytest.mark.parametrize("call", ["@nap()", "@doze()", "@sleep(1000)", "call void @nap()"])
def test_what_comes_after_it_does_not_run(s: Session, call: str) -> None:
    s.run(NAP)
    with interrupting(s), pytest.raises(Interrupted) as caught:
        s.run(f"@n = i32 1\n{call}\n@n = i32 99")
    assert "did not run" in str(caught.value)
    assert s["n"].value == 1
    s.check()


def test_a_destructor_that_runs_for_a_cell(s: Session) -> None:
    s.run(NAP)
    s.run(LEAVING + "define i32 @f() {\n  ret i32 1\n}", cell_id="a")
    with interrupting(s), pytest.raises(Interrupted):
        s.run("define i32 @f() {\n  ret i32 2\n}\n@n = i32 99", cell_id="a")
    assert s["n"].value == 0 and s.call("f") == 2
    s.check()


def test_a_statement_that_just_ended(s: Session) -> None:
    """Between two statements nothing runs that could be stopped."""
    s.run(NAP)

    class Sink(type(s._core.sink)):  # type: ignore[misc]
        def shown(self, label: str, text: str, html: str = "") -> None:
            super().shown(label, text, html)
            thread = threading.Thread(target=s.interrupt)
            thread.start()
            thread.join()

    sink = Sink()
    with pytest.raises(Interrupted) as caught:
        s.run("@n = i32 1\n@n\n@n\n@n = i32 99\n@n = i32 100", sink=sink)
    assert s["n"].value == 1, str(caught.value)
    assert s.run("@n = i32 5\n@n").value == 5  # and the next is not


class Endless:
    """A language whose reader does not come to an end."""

    name, display = "endless", "Endless"
    begun = threading.Event()

    def read(self, source: str, session: Known) -> Plan:
        self.begun.set()
        while "on" in source:
            pass
        return plan(source)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    language = Endless()
    monkeypatch.setitem(registry._loaded, "endless", language)
    language.begun.clear()
    return language


def test_a_language_that_reads_on_and_on(s: Session, endless: Endless) -> None:
    s.run("@n = global i32 7")

    def stop() -> None:
        endless.begun.wait(60)
        s.interrupt()

    for _ in range(20):
        endless.begun.clear()
        thread = threading.Thread(target=stop)
        thread.start()
        with pytest.raises(Interrupted):
            s.run("on and on", "endless")
        thread.join()
        assert s.run("@n").value == 7
    s.check()


def test_ctrl_c_while_a_language_reads(s: Session, endless: Endless) -> None:
    def press() -> None:
        endless.begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            s.run("on and on", "endless")
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert s.run("@n = i32 3\n@n").value == 3
    s.check()


def test_nothing_is_on_its_way_when_foreign_code_has_ended() -> None:
    """Presses at any moment end that code or nothing."""
    foreign, tried, ended = InterruptibleCall(), 0, 0
    with meanwhile(foreign.interrupt):
        while tried < 3000 or not ended:
            tried += 1
            try:
                foreign.run(sum, range(tried % 3000))
            except Interrupted:
                ended += 1
    assert not foreign


def test_a_thread_that_is_just_being_started_is_not_ended_instead() -> None:
    """Until it runs, it has the number of the one that starts it."""
    if sys.gettrace() is not None:
        pytest.skip("coverage runs Python code in a thread before that says that it has begun")
    foreign = InterruptibleCall()
    begun: list[int] = []

    def start() -> None:
        while True:
            thread = threading.Thread(target=begun.append, args=(1,))
            thread.start()
            thread.join(60)

    with meanwhile(foreign.interrupt):
        for _ in range(25):
            with pytest.raises(Interrupted):
                foreign.run(start)
    assert begun


def test_what_goes_on_in_spite_of_it_is_interrupted_again() -> None:
    """The exception may arrive where Python, or the code, drops it."""
    foreign, begun = InterruptibleCall(), threading.Event()

    def stubborn() -> None:
        begun.set()
        for _ in range(2):
            with suppress(KeyboardInterrupt):
                while True:
                    pass
        while True:
            pass

    def press() -> None:
        begun.wait(60)
        for _ in range(600):
            if foreign:
                foreign.interrupt()
                sleep(0.1)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(Interrupted):
        foreign.run(stubborn)
    pressing.join()
    assert not foreign


def test_a_call_that_is_ended_while_a_signal_is_handled() -> None:
    """The handler has another thread interrupt it, and is interrupted itself: what ends the call is
    not held back as the handler's own."""
    call, ended = InterruptibleCall(), []
    signals = Signals(lambda: ended.append(True), lambda: True)

    def handler(number: int, frame: object) -> None:
        thread = threading.Thread(target=call.interrupt)
        thread.start()
        thread.join()
        while True:
            sleep(0.001)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        signals.hold()
        with pytest.raises(Interrupted):
            call.run(signal.raise_signal, signal.SIGUSR1)
        signals.release()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not ended
