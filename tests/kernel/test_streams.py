"""Streams: order, pacing, split characters, and the cut."""

import gc
import re
from pathlib import Path

import pytest

from jitkernel import files
from jitkernel.kernel import streams
from jitkernel.kernel.streams import OutputStreams


class Recorder(OutputStreams):
    def __init__(self, limit: int = 1_000_000) -> None:
        self.messages: list[tuple[str, str]] = []
        self.timers: list = []
        self.limit = limit
        super().__init__(lambda: self.limit)

    def publish(self, name: str, text: str) -> None:
        self.messages.append((name, text))

    def later(self, seconds: float, call) -> None:
        self.timers.append(call)

    def display(self, view, live: str = "", update: bool = False) -> None:
        raise NotImplementedError

    input = display

    def text(self, name: str) -> str:
        return "".join(t for n, t in self.messages if n == name)


def test_the_first_words_come_at_once_and_the_last_by_the_timer() -> None:
    r = Recorder()
    r.write("stdout", b"one\n")
    assert r.messages == [("stdout", "one\n")]
    r.write("stdout", b"two\n")
    r.write("stdout", b"three\n")
    assert len(r.messages) == 1 and len(r.timers) == 1
    r.timers.pop()()
    assert r.messages[1:] == [("stdout", "two\nthree\n")]


def test_the_order_of_the_two_streams_is_kept() -> None:
    r = Recorder()
    for name, data in (("stdout", b"a"), ("stderr", b"b"), ("stderr", b"c"), ("stdout", b"d")):
        r.write(name, data)
    r.end()
    assert r.messages == [("stdout", "a"), ("stderr", "bc"), ("stdout", "d")]


def test_a_character_split_between_two_writes() -> None:
    r = Recorder()
    first, second = "é".encode()[:1], "é".encode()[1:]
    r.write("stdout", first)
    r.write("stderr", b"x")
    r.write("stdout", second)
    r.end()
    assert r.text("stdout") == "é"


def test_bytes_that_are_no_text() -> None:
    r = Recorder()
    r.write("stdout", b"\xff\xfe ok \xc3")
    r.end()
    assert r.text("stdout") == "\ufffd\ufffd ok \ufffd"


def test_output_past_the_limit_is_counted_not_shown() -> None:
    r = Recorder(limit=100)
    for _ in range(50):
        r.write("stdout", b"0123456789")
    r.end()
    assert r.text("stdout") == "0123456789" * 10
    assert "cut at 100 bytes" in r.text("stderr")
    assert "400 more bytes not shown]" in r.text("stderr")
    file = Path(re.search(r"the rest is in (\S+) while", r.text("stderr"))[1])
    assert file.read_text() == "0123456789" * 40
    r.begin(in_place=False)  # the next cell has its own count
    r.write("stdout", b"again")
    assert r.text("stdout").endswith("again")


def test_an_endless_printer_sends_few_messages() -> None:
    r = Recorder(limit=0)
    for _ in range(10_000):
        r.write("stdout", b"y\n")
    r.end()
    assert r.text("stdout") == "y\n" * 10_000
    assert len(r.messages) < 100


def test_the_rest_of_the_last_cells_is_kept_while_the_streams_are() -> None:
    r, files = Recorder(limit=10), []
    for number in range(12):
        r.begin(in_place=False)
        r.write("stdout", "shown" * 2)
        r.write("stderr", f"cell {number}, \N{SNOWMAN}")
        r.write("stdout", b" and \xff more")
        r.end()
        files.append(Path(re.findall(r"the rest is in (\S+) while", r.text("stderr"))[-1]))
    there = [f for f in files if f.exists()]
    assert there == files[-8:]
    for number, file in enumerate(there, 4):
        assert file.read_bytes() == f"cell {number}, \N{SNOWMAN}".encode() + b" and \xff more"
    assert there[0].stat().st_mode & 0o077 == 0
    del r
    gc.collect()
    assert not any(f.exists() for f in files)


def test_the_rest_goes_with_the_session() -> None:
    r = Recorder(10)
    r.write("stdout", b"x" * 100)
    file = Path(re.search(r"the rest is in (\S+) while", r.text("stderr"))[1])
    assert file.exists()
    assert file.parent.name.startswith(files._SCRATCH)  # goes with the next, if it is killed
    r.close()
    assert not file.parent.exists()
    r.begin(in_place=False)  # another session of the same notebook
    r.write("stdout", b"x" * 100)
    again = Path(re.findall(r"the rest is in (\S+) while", r.text("stderr"))[-1])
    assert again.exists() and again.parent != file.parent
    r.close()


def test_no_more_than_a_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LARGEST", 25)
    r = Recorder(limit=10)
    for _ in range(10):
        r.write("stdout", b"0123456789")
    r.end()
    words = "[90 more bytes not shown; the first 25 of them are in the file]"
    assert words in r.text("stderr")
    file = Path(re.search(r"the rest is in (\S+) while", r.text("stderr"))[1])
    assert file.read_text() == "0123456789012345678901234"


def test_a_prompt_that_the_program_printed_is_shown_once() -> None:
    r = Recorder()
    r.write("stdout", b"hello\n")
    r.write("stdout", b"how ")
    r.write("stdout", b"many? ")
    assert r.unshown("how many? ") == ""
    assert r.text("stdout") == "hello\nhow many? "
    assert r.unshown("Really? ") == "Really? "  # the kernel's own question
    r.limit = 5
    r.begin(in_place=False)
    assert r.unshown("how many? ") == "how many? "
    r.write("stdout", b"how many? ")
    assert r.unshown("how many? ") == "how many? "  # it was cut
