"""Streams: order, pacing, split characters, and the cut."""

from jitkernel.kernel.streams import OutputStreams


class Recorder:
    def __init__(self, limit: int = 1_000_000) -> None:
        self.messages: list[tuple[str, str]] = []
        self.timers: list = []
        self.streams = OutputStreams(
            lambda name, text: self.messages.append((name, text)),
            lambda seconds, call: self.timers.append(call),
            limit,
        )

    def text(self, name: str) -> str:
        return "".join(t for n, t in self.messages if n == name)


def test_the_first_words_come_at_once_and_the_last_by_the_timer() -> None:
    r = Recorder()
    r.streams.write("stdout", b"one\n")
    assert r.messages == [("stdout", "one\n")]
    r.streams.write("stdout", b"two\n")
    r.streams.write("stdout", b"three\n")
    assert len(r.messages) == 1 and len(r.timers) == 1
    r.timers.pop()()
    assert r.messages[1:] == [("stdout", "two\nthree\n")]


def test_the_order_of_the_two_streams_is_kept() -> None:
    r = Recorder()
    for name, data in (("stdout", b"a"), ("stderr", b"b"), ("stderr", b"c"), ("stdout", b"d")):
        r.streams.write(name, data)
    r.streams.finish()
    assert r.messages == [("stdout", "a"), ("stderr", "bc"), ("stdout", "d")]


def test_a_character_split_between_two_writes() -> None:
    r = Recorder()
    first, second = "é".encode()[:1], "é".encode()[1:]
    r.streams.write("stdout", first)
    r.streams.write("stderr", b"x")
    r.streams.write("stdout", second)
    r.streams.finish()
    assert r.text("stdout") == "é"


def test_bytes_that_are_no_text() -> None:
    r = Recorder()
    r.streams.write("stdout", b"\xff\xfe ok \xc3")
    r.streams.finish()
    assert r.text("stdout") == "\ufffd\ufffd ok \ufffd"


def test_output_past_the_limit_is_counted_not_shown() -> None:
    r = Recorder(limit=100)
    for _ in range(50):
        r.streams.write("stdout", b"0123456789")
    r.streams.finish()
    assert r.text("stdout") == "0123456789" * 10
    assert "cut at 100 bytes" in r.text("stderr")
    assert "400 more bytes not shown" in r.text("stderr")
    r.streams.reset(100)  # the next cell has its own count
    r.streams.write("stdout", b"again")
    assert r.text("stdout").endswith("again")


def test_an_endless_printer_sends_few_messages() -> None:
    r = Recorder(limit=0)
    for _ in range(10_000):
        r.streams.write("stdout", b"y\n")
    r.streams.finish()
    assert r.text("stdout") == "y\n" * 10_000
    assert len(r.messages) < 100
