"""A notebook is its text: after any edit, what its functions give and what its types, constants and
variables are is what a session gives that runs the present text from the beginning.

Undo and redo of each edit, and a session that is saved and brought back, are held against the same.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session
from tests.seeds import seeds
from tests.session.notebooks import RICH, Notebook, Player


def from_the_beginning(book: Notebook) -> dict[str, int]:
    with Session() as s:
        player = Player(book, s)
        player.begin()
        return player.state()


def edits(seed: int, folder: Path, count: int, kinds: tuple[str, ...] = ()) -> Iterator[str]:
    """Edit a notebook at random; the differences from its text."""
    book = Notebook(seed, folder, kinds)
    session = Session()
    try:
        player = Player(book, session)
        player.begin()
        wanted = player.state()
        trail: list[tuple[int, str, dict[str, int]]] = []  # what undo leads back to
        for step in range(count):
            if book.is_portable and book.random.random() < 0.2:
                session.save(folder / "saved.jks")
                session.close()
                session = player.session = Session.restore(folder / "saved.jks")
                trail.clear()
            item, how = book.edit(player.below())
            edited = f"seed {seed}, edit {step}: {book.text(item)} {how}"
            before, player.runs, said = wanted, 0, copy.deepcopy(player.said)
            player.apply(item, how)
            runs, wanted = player.runs, from_the_beginning(book)
            if item.kind == "header":  # a file on disk is not undone
                trail.clear()
            else:
                trail.append((runs, edited, before))
            way = book.random.choice(("", "undone and done", "undone, looked at, done"))
            if way and item.kind != "header":
                edited = f"{edited}, {way}"
                session.undo(runs)
                if way == "undone and done":
                    session.redo(runs)
                else:
                    yield from told(f"{edited}: before", player.state(), before, book)
                    player.said = said
                    player.apply(item, how)
            yield from told(edited, player.state(), wanted, book)
            session.check()
        yield from back_and_forth(player, trail, wanted)
    finally:
        session.close()


def back_and_forth(
    player: Player, trail: list[tuple[int, str, dict[str, int]]], last: dict[str, int]
) -> Iterator[str]:
    """Undo every edit, and redo them all; the differences from each text."""
    book, session = player.notebook, player.session
    after = [*(state for *_, state in trail[1:]), last][: len(trail)]
    for runs, edited, before in reversed(trail):
        session.undo(runs)
        yield from told(f"{edited}: all undone to before it", player.state(), before, book)
    for (runs, edited, _), state in zip(trail, after, strict=True):
        session.redo(runs)
        yield from told(f"{edited}: all redone to behind it", player.state(), state, book)
    session.check()


def told(edited: str, got: dict[str, int], wanted: dict[str, int], book: Notebook) -> Iterator[str]:
    for name, value in wanted.items():
        if got[name] != value:
            yield f"{edited}: {book.text(book.items[name])} is {got[name]}, not {value}"


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_edits_give_what_the_text_gives(seed: int, tmp_path: Path) -> None:
    assert not list(edits(seed, tmp_path, 3))


@pytest.mark.soak
@pytest.mark.parametrize(
    "kinds", [(), (*RICH, "macro", "typedef", "function")], ids=["all", "rich"]
)
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_many_edits(seed: int, kinds: tuple[str, ...], tmp_path: Path) -> None:
    """`rich`: declarations that belong together."""
    assert not list(edits(seed, tmp_path, 8, kinds))
