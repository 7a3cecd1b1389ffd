"""What a cell says in the executor's place is not believed; a forked child answers nobody."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time

import pytest

from jitkernel.errors import JitError
from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.doorbell import Doorbell
from jitkernel.executor.replies import HEAD, Replies, new_number
from jitkernel.settings import SessionSettings
from tests.busy import meanwhile

from . import programs as p
from .conftest import Lab
from .programs import program

#: Sends what is at %args (a count, then op, seq, size of each message) on every socket that there is.
FORGE = program(
    """  long room[512] = {0};
  for (int fd = 3; fd < 1100; fd++)
    for (long i = 0; i < *args; i++) {
      long *message = args + 1 + 3 * i;
      room[0] = message[0];
      room[1] = message[1];
      room[3] = i % 2;
      send(fd, room, message[2], MSG_NOSIGNAL | MSG_DONTWAIT);
    }"""
)


def forge(lab: Lab, messages: list[tuple[int, int, int]]) -> None:
    flat = [word for message in messages for word in message]
    outcome = lab.run(FORGE, struct.pack(f"<{1 + len(flat)}Q", len(messages), *flat))
    assert outcome.kind == "ok" and not outcome.respawned


KINDS = {
    "answers of calls": [(1, q, 64) for q in range(120)],
    "answers of other sizes": [(op, q, size) for op in (1, 3, 17) for q in range(9)
                               for size in (8, 16, 24, 56, 63, 65, 1000, 4096)][:150],
    "answers of look-ups": [(17, q, 72) for q in range(120)],
    "empty messages": [(1, 0, 0)] * 100,
    "greetings": [(16, 0, 64), (16, 0, 64), (16, 1, 200), (16, 1, 64)] * 20,
    "requests for code": [(5, 0, 64)] * 100,
    "odd kinds": [(op, 0, 64) for op in range(100)],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_forged_messages_are_dropped(lab: Lab, kind: str) -> None:
    lab.executor.services.lookup(["puts"])
    pid = lab.executor.pid
    for _ in range(2):
        forge(lab, KINDS[kind])
        assert lab.square(9) == 81
        assert (
            all(lab.executor.services.lookup(["puts", "qsort"]))
            and not lab.executor.services.lookup(["no_such"])[0]
        )
        assert lab.executor.services.locate([0, 1]) == ["", ""]
        lab.executor.drain()
        lab.executor.park()
        lab.executor.unpark()
        assert lab.run(p.NULL).kind == "fault"
    assert lab.executor.pid == pid
    lab.assert_sound()


def test_whoever_reads_the_present_number_cannot_answer_before_the_runtime() -> None:
    noted = {"done_seq": 0}
    bell = Doorbell(ControlBlock(memoryview(bytearray(1 << 20)), 0))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        replies, number = Replies(noted, bell), new_number()
        replies.expect(HEAD.pack(1, number, 0, 0, 0, 0, 0, 0))
        for message in (
            HEAD.pack(1, number, 0, 0, 0, 0, 0, 0),  # right, but the runtime knows nothing of it
            HEAD.pack(2, number, 0, 0, 0, 0, 0, 0),
            HEAD.pack(1, number ^ 2, 0, 0, 0, 0, 0, 0),
            HEAD.pack(1, number, 0, 0, 0, 0, 0, 0)[:12],
            b"",
            os.urandom(40000),
        ):
            theirs.send(message)
            head = message[: HEAD.size].ljust(HEAD.size, b"\0")
            assert replies.receive(ours) == (HEAD.unpack(head) if message else ())
            assert replies.payload() == message[HEAD.size :]
            assert replies.answer() is None
        noted["done_seq"] = number
        theirs.send(HEAD.pack(1, number, 1, 0, 0, 0, 0, 0))
        replies.receive(ours)
        assert replies.answer() == (1, number, 1, 0, 0, 0, 0, 0)


def test_numbers_of_requests_cannot_be_foretold() -> None:
    numbers = [new_number() for _ in range(1000)]
    assert len(set(numbers)) == 1000 and all(0 < n < 1 << 64 for n in numbers)


def test_a_process_that_answers_nonsense_is_replaced(fresh: Lab) -> None:
    """Its Python part runs on memory that cells can write to."""
    fresh.square(2)
    known, replies = fresh.executor._replies, [b"", b"abc"]
    ask = known.payload
    known.payload = lambda: replies.pop() if replies else ask()  # type: ignore[method-assign]
    pid = fresh.executor.pid
    with pytest.raises(JitError, match="makes sense"):
        fresh.executor.services.lookup(["puts"])
    assert fresh.executor.pid != pid
    assert fresh.executor.services.lookup(["puts"])[0] and fresh.square(2) == 4


def test_descriptors_that_do_not_wait(lab: Lab) -> None:
    pid = lab.executor.pid
    outcome = lab.run(program("for (int fd = 3; fd < 1100; fd++) fcntl(fd, F_SETFL, O_NONBLOCK);"))
    assert outcome.kind == "ok" and not outcome.respawned
    time.sleep(0.05)  # it waits for the next request
    assert lab.square(7) == 49 and lab.executor.pid == pid
    lab.assert_sound()


def test_output_without_end_holds_nobody_up(fresh: Lab) -> None:
    """Threads write faster than is read: what was there when one came is what one takes."""
    spam = program(
        "fcntl(1, F_SETPIPE_SZ, 1 << 20);\nstart(spam);",
        p.THREAD,
        "char text[65536];\nvoid *spam(void *x) { for (;;) write(1, text, sizeof text); }",
    )
    assert fresh.run(spam).kind == "ok"
    for _ in range(3):
        fresh.run(spam)
    fresh.executor.on_output = lambda name, data: None
    done = threading.Event()

    def take() -> None:
        for _ in range(200):
            fresh.executor.drain()
        done.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    assert done.wait(30)
    thread.join()
    assert fresh.square(3) == 9


@pytest.mark.parametrize("name", ["fork", "vfork"])
def test_a_call_that_forks_gives_the_parents_result(lab: Lab, name: str) -> None:
    """The child writes its result after its parent did, and before the parent answers."""
    forks = program(f"pid_t child = {name}();\n*ret = child;\nif (child) waitpid(child, 0, 0);")
    pid = lab.executor.pid
    for _ in range(5):
        outcome = lab.run(forks, ret_size=8)
        assert outcome.kind == "ok" and not outcome.respawned
        child = struct.unpack("<q", outcome.result)[0]
        assert child > 0 and child != pid
    assert lab.executor.pid == pid
    lab.assert_sound()


def test_control_words_of_any_value_raise_no_raw_exception() -> None:
    """What a thread of the program may do at any moment, here at random, while calls run."""
    chance = random.Random(5)
    lab = Lab(interrupt_grace=0.3)
    lab.executor.settings = SessionSettings(interrupt_grace=0.3, cell_timeout=0.5)
    try:
        lab.square(1)
        words = [*abi.FIELDS.values(), *(abi.RECORD_AT + 8 * i for i in abi.RECORD.values())]

        def scribble() -> None:
            time.sleep(chance.random() * 0.02)
            for _ in range(chance.randrange(1, 4)):
                at = lab.executor.control.address + chance.choice(words)
                value = chance.choice([0, 1, 2**64 - 1, chance.getrandbits(64)])
                lab.arena.write(at, struct.pack("<Q", value))

        nap = program("usleep(3000);")
        at = {text: lab.place(text) for text in (nap, p.NULL, p.SQUARE)}
        end = time.monotonic() + 2
        with meanwhile(scribble):
            while time.monotonic() < end:
                try:
                    outcome = lab.executor.call(at[chance.choice(list(at))], 0, bytes(8), 8)
                    assert outcome.kind in ("ok", "fault", "exit", "stub", "interrupted", "died")
                    lab.executor.services.lookup(["puts"])
                    lab.executor.drain()
                    lab.executor.call_many([at[nap]])
                except JitError:
                    pass
        lab.executor.respawn()
        assert lab.square(6) == 36
    finally:
        lab.close()
