"""A worker whose memory LLVM has spoilt may answer anything: it is replaced, and that is said."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Part, Request
from jitkernel.compiler.wire import LENGTHS, FrameReader, frame
from jitkernel.errors import CompileError, WorkerDied
from jitkernel.settings import SessionSettings

SQUARE = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@n = global i32 5\n"
WRONG = SQUARE.replace("mul i32", "mul i64")
ODD = [None, -1, 1 << 64, 0.5, "", "text", [], {}, [[]], [1, 2], {"a": 1}]
PART = Part(Request(SQUARE), frozenset(["sq"]))

Change = Callable[[bytes], bytes]
Way = tuple[Any, ...]


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilerPool]:
    with CompilerPool(SessionSettings()) as pool:
        yield pool


def answered(monkeypatch: pytest.MonkeyPatch, change: Change, ask: Callable[[], object]) -> None:
    """Ask something whose answer is changed on its way."""
    receive = FrameReader.receive

    def changed(self: FrameReader, spin: int = 0, timeout: float | None = None) -> Any:
        header, blob = receive(self, spin, timeout)
        self._data = change(frame(header, blob))
        return receive(self, spin, 0.2)

    with monkeypatch.context() as patch:
        patch.setattr(FrameReader, "receive", changed)
        ask()


def places(value: Any, way: Way = ()) -> Iterator[Way]:
    """The way to each part of a header."""
    yield way
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):  # fmt: skip
        yield from places(inner, (*way, key))


def with_other(message: bytes, chance: random.Random) -> bytes:
    """A message with something odd, or nothing, in the place of some part of its header."""
    text, _ = LENGTHS.unpack_from(message)
    header = json.loads(message[LENGTHS.size : LENGTHS.size + text])
    whole = {"": copy.deepcopy(header)}
    *above, last = chance.choice([("", *way) for way in places(header)])
    part: Any = whole
    for key in above:
        part = part[key]
    if above and chance.random() < 0.3:
        del part[last]
    else:
        part[last] = chance.choice(ODD)
    return frame(whole[""], message[LENGTHS.size + text :])


def test_an_answer_of_another_form(pool: CompilerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    questions: list[Callable[[], object]] = [
        lambda: pool.compile(Request(SQUARE)),
        lambda: pool.compile(Request(WRONG)),
        lambda: pool.merged([PART], Request("").options, ["sq"], ["text"]),
        lambda: pool.located(Request(SQUARE), b""),
        lambda: pool.ends(Request(SQUARE)),
        lambda: pool.contexts(),
    ]
    nonsense = 0
    for _ in range(60):
        try:
            answered(
                monkeypatch, lambda message: with_other(message, chance), chance.choice(questions)
            )
        except WorkerDied as error:
            nonsense += 1
            assert "gave an answer that makes no sense" in str(error)
        except CompileError:  # the cell's, and the place that it tells may be another one
            pass
    assert nonsense > 20
    assert pool.compile(Request(SQUARE)).summary.names


@pytest.mark.parametrize(
    "message",
    [
        LENGTHS.pack(3, 0) + b"{]}", LENGTHS.pack(2, 0) + b"\xff\xfe", LENGTHS.pack(0, 0),
        frame([]), frame({}), frame({"error": [[]]}), frame({"own": [1]}),
        LENGTHS.pack(20000, 0) + b"[" * 20000,
    ],
)  # fmt: skip
def test_bytes_that_are_no_answer(
    pool: CompilerPool, monkeypatch: pytest.MonkeyPatch, message: bytes
) -> None:
    with pytest.raises(
        WorkerDied, match=r"makes no sense .* when it was asked for @sq; the session"
    ):
        answered(monkeypatch, lambda _: message, lambda: pool.compile(Request(SQUARE, label="@sq")))
    assert pool.compile(Request(SQUARE)).summary.names
