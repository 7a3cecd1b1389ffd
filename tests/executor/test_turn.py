"""Who may change the program while its code runs in this process, by threads and callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from jitkernel.executor.turn import Turn

LONG = 30  # seconds until a test that hangs fails
SOON = 0.02  # seconds in which what must not happen would


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def state(turn: Turn) -> tuple[int, bool, bool, bool]:
    return turn.depth, turn.is_callers, turn.in_callback, turn.lock.locked()


def elsewhere(turn: Turn) -> tuple[int, bool, bool, bool]:
    found: list[tuple[int, bool, bool, bool]] = []
    started(lambda: found.append(state(turn))).join(LONG)
    return found[0]


def test_with_no_call_in_progress_it_is_nobodys() -> None:
    turn = Turn()
    assert state(turn) == (0, False, False, False)
    with turn.taken():
        assert state(turn) == (0, False, False, True)
    assert state(turn) == (0, False, False, False)


def test_while_code_runs_it_is_free_and_the_callers_in_a_callback() -> None:
    turn, seen = Turn(), []

    def code() -> int:
        seen.append((state(turn), elsewhere(turn)))
        with turn.taken():
            seen.append((state(turn), elsewhere(turn)))
        seen.append((state(turn), elsewhere(turn)))
        return 7

    assert turn.call(code) == 7
    runs = (1, True, True, False), (1, False, False, False)
    changes = (1, True, False, True), (1, False, False, True)
    assert seen == [runs, changes, runs]
    assert state(turn) == (0, False, False, False)


def test_a_call_in_a_callback_lets_go_of_it_and_takes_it_back() -> None:
    turn, seen = Turn(), []

    def inner() -> int:
        seen.append((state(turn), elsewhere(turn)))
        return 0

    def code() -> int:
        with turn.taken():
            turn.call(inner)
            seen.append((state(turn), elsewhere(turn)))
        turn.call(inner)
        return 0

    turn.call(code)
    runs = (2, True, True, False), (2, False, False, False)
    assert seen == [runs, ((1, True, False, True), (1, False, False, True)), runs]
    assert state(turn) == (0, False, False, False)


def test_a_call_ends_only_when_nobody_else_has_it() -> None:
    turn, has, goes = Turn(), threading.Event(), threading.Event()
    done: list[str] = []

    def changes() -> None:
        with turn.taken():
            has.set()
            goes.wait(LONG)
            done.append("changed")

    def code() -> int:
        threads.append(started(changes))
        has.wait(LONG)
        return 0

    threads: list[threading.Thread] = []
    caller = started(lambda: done.append(f"returned {turn.call(code)}"))
    assert has.wait(LONG)
    caller.join(SOON)
    assert caller.is_alive() and turn.depth == 1 and not done
    goes.set()
    caller.join(LONG)
    assert done == ["changed", "returned 0"] and state(turn) == (0, False, False, False)


def test_one_at_a_time_has_it() -> None:
    turn, inside, most = Turn(), [0], [0]

    def changes() -> None:
        for _ in range(50):
            with turn.taken():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                threading.Event().wait(0)
                inside[0] -= 1

    threads = [started(changes) for _ in range(4)]
    for thread in threads:
        thread.join(LONG)
    assert most == [1] and inside == [0]


@pytest.mark.parametrize("nested", [False, True])
def test_after_an_error_it_is_as_it_was(nested: bool) -> None:
    turn = Turn()

    def fails() -> int:
        raise KeyError("enter")

    def code() -> int:
        with turn.taken():
            before = state(turn)
            with pytest.raises(KeyError):
                turn.call(fails)
            assert state(turn) == before
        return 0

    if nested:
        turn.call(code)
    else:
        with pytest.raises(KeyError):
            turn.call(fails)
    assert state(turn) == (0, False, False, False)
