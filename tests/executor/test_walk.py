"""A long random walk over everything that can happen to an executor; a model says what is left."""

from __future__ import annotations

import os
import random
import signal
import struct
import threading
import time

from . import programs as p
from .conftest import Lab
from .programs import program, string
from .test_exits import FORK
from .test_faults import FAULTS
from .test_interrupts import ENDLESS, LOOP

COUNT = program(
    """  %v = load i64, ptr @steps
  %w = add i64 %v, 1
  store i64 %w, ptr @steps
  store i64 %w, ptr %ret""",
    "@steps = global i64 0",
)
#: ret: what the kept pointer points at, 0 where there is none
HEAP = program(
    """  %p = load ptr, ptr @kept
  %none = icmp eq ptr %p, null
  br i1 %none, label %no, label %yes
no:
  store i64 0, ptr %ret
  ret void
yes:
  %v = load i64, ptr %p
  store i64 %v, ptr %ret""",
    "@kept = external global ptr",
)
CHILD = program(FORK.replace("{child}", "  %v = load volatile i64, ptr null"))
PRINT = program("  %n = call i32 (ptr, ...) @printf(ptr @s)", string("s", "words "))
FAST = [n for n in FAULTS if "recursion" not in n]
WAITS = ["loop", "printf", "sleep", "read of a pipe", "comparison inside qsort"]


def test_walk(fresh: Lab) -> None:
    lab, random_ = fresh, random.Random(7)
    lab.executor.on_respawn = lab.linker.resolver.renew_far
    lab.run(p.KEEP)
    descriptors = len(os.listdir("/proc/self/fd"))
    heap = {0: True}  # generation -> the kept block is there

    def interrupt() -> None:
        time.sleep(random_.random() * 0.02)
        while not lab.executor.interrupt():
            time.sleep(0.001)

    def stopped(ir: str) -> None:
        at = lab.place(ir)
        thread = threading.Thread(target=interrupt)
        thread.start()
        assert lab.executor.call(at, 0).kind == "interrupted"
        thread.join()

    for count in range(1, 251):
        match random_.randrange(9):
            case 0:
                assert lab.run(FAULTS[random_.choice(FAST)][0]).kind == "fault"
            case 1:
                stopped(ENDLESS[random_.choice(WAITS)][0])
            case 2:
                assert lab.run(program("  call void @exit(i32 1)")).kind == "exit"
            case 3:
                outcome = lab.run(CHILD, ret_size=8)
                assert struct.unpack("<2i", outcome.result) == (11, 77)
            case 4:
                assert lab.run(PRINT).kind == "ok" and lab.out == b"words "
            case 5 if random_.random() < 0.3:
                lab.executor.respawn()
            case 6 if random_.random() < 0.3:
                os.kill(lab.executor.pid, signal.SIGKILL)
            case 7:
                lab.lines = ["A"]
                char = program("  %c = call i32 @getchar()\n  store i32 %c, ptr %ret")
                assert lab.run(char, ret_size=1).result == b"A"
            case 8 if random_.random() < 0.2:
                lab.executor.respawn()
                stopped(LOOP)  # while it starts
            case _:
                assert lab.square(9) == 81
        outcome = lab.run(COUNT, ret_size=8)
        assert outcome.kind == "ok" and struct.unpack("<q", outcome.result)[0] == count
        if heap.get(lab.executor.generation):
            assert lab.run(HEAP, ret_size=8).result == struct.pack("<q", 4711)
        else:
            assert lab.run(p.KEEP).kind == "ok"
            heap[lab.executor.generation] = True
        lab.arena.check()
    assert len(os.listdir("/proc/self/fd")) == descriptors
