"""A laboratory for the executor: an arena, the linker, and a real process to call into."""

from __future__ import annotations

import functools
import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import pytest

from jitkernel.arena import Arena
from jitkernel.executor.process import ProcessExecutor
from jitkernel.executor.records import Outcome
from jitkernel.executor.runtime import INTERPOSED, runtime_ir
from jitkernel.languages.c.clang import find_clang
from jitkernel.linker import Linker
from jitkernel.settings import SessionSettings
from tests.busy import strain

from . import programs

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
llvm.initialize_native_asmparser()


def compile_ir(text: str, opt: int = 1) -> bytes:
    """An object for the executor's addresses."""
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context)
    module.verify()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=opt, reloc="static", codemodel="small")
    return machine.emit_object(module)


@functools.cache
def compile_c(text: str) -> bytes:
    """An object for the executor's addresses, of C that is compiled as it stands."""
    pytest.importorskip("ziglang")
    plain = replace(find_clang(), optimise=False)
    output = plain.compile(text, programs.HEADERS, whole=True)
    assert output.text, output.complaints
    return compile_ir(output.text)


RUNTIME = compile_ir(runtime_ir())


class Lab:
    """An executor and what is placed in its arena; `out` and `err` collect what it prints."""

    def __init__(self, **settings: Any):
        self.arena = Arena(256 << 20)
        self.linker = Linker(
            self.arena, lambda names: self.executor.services.lookup(names), interposed=INTERPOSED
        )
        regions = {r.name: r for r in self.arena.regions}
        self.entry = self.linker.load_runtime(RUNTIME, regions["runtime.data"].start)
        self.executor = ProcessExecutor(self.arena, self.entry, SessionSettings(**settings))
        self.executor.on_output, self.executor.on_input = self.output, self.input
        self.out = self.err = b""
        self.lines: list[str | None] = []
        self.prompts: list[str] = []
        self.seen = 0
        self.cache: dict[str, tuple[int, range]] = {}

    def output(self, name: str, data: bytes) -> None:
        if name == "stdout":
            self.out += data
        else:
            self.err += data

    def input(self, prompt: str) -> str | None:
        self.prompts.append(prompt)
        return self.lines.pop(0) if self.lines else None

    def place(self, text: str) -> int:
        """Link a program; the address of its entry, the same for the same text."""
        if self.executor.generation != self.seen:
            self.seen = self.executor.generation
            self.linker.resolver.renew_far()
        if text not in self.cache:
            image = self.linker.place(compile_c(text))
            exports = {s.name: a for s, a, _ in image.exports}
            code = image.text
            assert code is not None
            self.cache[text] = exports["go"], range(code.start, code.start + code.size)
        return self.cache[text][0]

    def run(self, text: str, args: bytes = b"", ret_size: int = 0) -> Outcome:
        """Link and call a program; `out` and `err` are what it printed."""
        at = self.place(text)
        self.out = self.err = b""
        return self.executor.call(at, 0, args, ret_size)

    def square(self, x: int) -> int:
        outcome = self.run(programs.SQUARE, struct.pack("<q", x), 8)
        assert outcome.kind == "ok", outcome
        return struct.unpack("<q", outcome.result)[0]

    def assert_sound(self, *, heap: bool = True) -> None:
        """The next cell works: on its thread and on a fresh one, with all state as it should be."""
        assert self.square(7) == 49
        if not heap:
            assert self.run(programs.KEEP).kind == "ok"
        outcome = self.run(programs.PROBE, ret_size=96)
        assert outcome.kind == "ok", outcome
        words = struct.unpack("<12Q", outcome.result)
        third = struct.unpack("<Q", struct.pack("<d", 1 / 3))[0]
        assert words == (0x1F80, 0x37F, 0, third, 1) * 2 + (42, 4711)

    def maps(self) -> list[str]:
        with open(f"/proc/{self.executor.pid}/maps") as file:
            return file.read().splitlines()

    def close(self) -> None:
        pid = self.executor.pid
        self.executor.close()
        self.arena.close()
        assert not pid or not os.path.exists(f"/proc/{pid}")


@pytest.fixture(scope="module")
def shared() -> Iterator[Lab]:
    """One laboratory for a whole file; `lab` is what tests take."""
    lab = Lab()
    lab.executor.start()
    yield lab
    lab.close()


@pytest.fixture
def lab(shared: Lab) -> Lab:
    """The file's laboratory with a known heap and globals."""
    shared.lines, shared.prompts = [], []
    shared.executor.on_input, shared.executor.on_output = shared.input, shared.output
    shared.executor.settings = SessionSettings()
    assert shared.run(programs.KEEP).kind == "ok"
    return shared


@pytest.fixture
def fresh() -> Iterator[Lab]:
    """A laboratory of the test's own."""
    lab = Lab()
    yield lab
    lab.close()


class TooSlow(AssertionError):
    """Something took longer than its bound: the machine may be busy with something else."""


def in_time(since: float, bound: float) -> None:
    """Check that at most `bound` seconds have passed since `since` (monotonic); as many more as
    the machine makes of them for everybody."""
    took = time.monotonic() - since
    if took > bound and took > bound * (times := strain()):
        raise TooSlow(
            f"{took:.3f} s, the bound is {bound} s, of which a busy machine makes {times:.1f} times as many"
        )


def timed(test: Callable[..., None]) -> Callable[..., None]:
    """A test of a bound in time: tried up to four times, each in a process of its own and later
    than the one before, so that what disturbed one is over."""

    @functools.wraps(test)
    def patient(**fixtures: Any) -> None:
        for attempt in range(4):
            try:
                return test(**fixtures)
            except TooSlow:
                if attempt == 3:
                    raise
                time.sleep(0.2 * 4**attempt)
                lab = fixtures.get("lab") or fixtures["fresh"]
                lab.executor.respawn()
                assert lab.run(programs.KEEP).kind == "ok"

    return patient
