"""Where an emulator runs the program, as Docker does on ARM Macs: the executor under qemu-user."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, JitError, UsageError
from jitkernel.executor import spawn
from jitkernel.linker import x86_64
from tests.busy import until
from tests.looping import looping

QEMU = shutil.which("qemu-x86_64")
THREAD = "volatile int seen;\nextern int f(void);\n" + looping("seen = f();", "begin")


def constant(name: str, value: int) -> str:
    return f"define i32 @{name}() {{\n  ret i32 {value}\n}}"


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session whose executor an emulator runs."""
    if QEMU is None:
        pytest.skip("qemu-x86_64 is not here: Debian's package qemu-user has it")
    python = tmp_path_factory.mktemp("emulated") / "python"
    real = os.path.realpath(sys.executable)
    python.write_text(f'#!/bin/sh\nexec {QEMU} -0 "$0" {real} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spawn, "sys", SimpleNamespace(executable=str(python)))
        with Session(capacity=64 << 20, spare=False) as session:
            yield session


def test_redefinitions_are_seen_and_memory_comes_back(emulated: Session) -> None:
    s = emulated
    s.run(constant("f", -1) + "\ndefine i32 @g() {\n  %r = call i32 @f()\n  ret i32 %r\n}")
    right = 0
    for number in range(30):
        s.run(constant("f", number))
        right += s.call("f") == s.call("g") == number
    assert right == 30 and s.inspect.engine.executor.emulated
    s.configure("undo_depth", 0)
    used = s.memory()["zones"]["text"]["used"]
    for number in range(5):
        s.run(constant(f"more{number}", number))
        assert s.call(f"more{number}") == number
    for number in range(5):
        s.evict(f"more{number}")
    assert s.memory()["zones"]["text"]["used"] == used
    s.check()


def test_code_that_comes_back_is_the_code_that_is_run(emulated: Session) -> None:
    s = emulated
    fill = 'call void asm sideeffect ".fill 400, 1, 0x90", ""()'
    for number in range(4):
        s.run(f"define i32 @h{number}() {{\n  {fill}\n  ret i32 {number}\n}}")
    s.budget = 1
    for _ in range(3):
        assert [s.call(f"h{number}") for number in range(4)] == [0, 1, 2, 3]
    s.budget = 0


def test_a_thread_of_the_program_sees_them_too(emulated: Session) -> None:
    s = emulated
    s.run(constant("f", 100))
    s.run(THREAD, "c")
    assert (
        s.inspect.engine.executor.threads == 0
        and s.call("begin") == 0
        and s.inspect.engine.executor.threads == 1
    )
    for number in range(101, 106):
        s.run(constant("f", number))
        assert until(lambda: s["seen"].value == number)  # noqa: B023 (at once)
    s.call("finish")
    assert until(lambda: not s.inspect.engine.executor.threads), "it returned; the system ends it"


def test_faults_and_another_process(emulated: Session) -> None:
    """(Signals of our own have other numbers under qemu: both processes have to be emulated.)"""
    s, generation = emulated, emulated.inspect.engine.executor.generation
    with pytest.raises(Fault, match="a null pointer"):
        s.run("%v = load volatile i64, ptr null")
    assert s.inspect.engine.executor.generation == generation
    s.respawn()
    s.run(constant("f", 7))
    assert s.call("f") == 7


def test_an_emulator_that_is_told_of_changes_in_vain_runs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(x86_64, "answer", lambda number: b"\xc7\x02\1\0\0\0\xc3\xcc")
    with Session(capacity=64 << 20) as s:
        s.run(constant("f", 1))
        for _ in range(2):
            with pytest.raises(JitError, match="emulates"):
                s.call("f")
    with pytest.raises(UsageError, match="emulator"), Session(executor="inline") as s:
        s.run(constant("f", 1))
        s.call("f")


def test_one_that_has_to_be_told_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer is that of the first; from then on the text is renewed before each call."""
    plain, asked = x86_64.answer, []

    def late(number: int) -> bytes:
        asked.append(number)
        return plain(1 if number == 2 else number)

    monkeypatch.setattr(x86_64, "answer", late)
    with Session(capacity=64 << 20) as s:
        assert not s.inspect.engine.executor.emulated
        s.run(constant("f", 5))
        assert s.call("f") == 5 and s.inspect.engine.executor.emulated and 3 in asked
        for number in range(20):
            s.run(constant("f", number))
            assert s.call("f") == number
        s.respawn()
        assert s.call("f") == 19
