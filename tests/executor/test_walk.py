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
from .programs import program
from .test_exits import WAITS, fork
from .test_faults import FAULTS
from .test_interrupts import ENDLESS, LOOP

COUNT = program("*ret = ++steps;", "long steps;")
#: ret: what the kept pointer points at, 0 where there is none
HEAP = program("*ret = kept ? *kept : 0;", "extern long *kept;")
FAST = [n for n in FAULTS if "recursion" not in n]
ENDS = ["loop", "printf", "sleep", "read of a pipe", "comparison inside qsort"]


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
                stopped(ENDLESS[random_.choice(ENDS)][0])
            case 2:
                assert lab.run(program("exit(1);")).kind == "exit"
            case 3:
                outcome = lab.run(fork(p.FAULT, WAITS), ret_size=8)
                assert struct.unpack("<2i", outcome.result) == (11, 77)
            case 4:
                assert lab.run(program('printf("words ");')).kind == "ok" and lab.out == b"words "
            case 5 if random_.random() < 0.3:
                lab.executor.respawn()
            case 6 if random_.random() < 0.3:
                os.kill(lab.executor.pid, signal.SIGKILL)
            case 7:
                lab.lines = ["A"]
                assert lab.run(p.GETCHAR, ret_size=1).result == b"A"
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
