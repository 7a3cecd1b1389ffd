"""A cell of C that is read: what it is, what the session tells of other cells, and what clang alone
can tell.  Start from `Reading`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias

from jitkernel.languages.c.notes import Note, Notes
from jitkernel.languages.c.pieces import Piece
from jitkernel.record import field, record

if TYPE_CHECKING:
    from jitkernel.languages.c.headers import Header


#: Braces of a piece: from, and to, in the code that was cut, and the text that was written.
Written: TypeAlias = tuple[int, int, str]


@record(frozen=False)
class Guesses:
    """Guesses at what clang alone can tell, assumed until it says otherwise: whether the value is a
    bit-field or an array that is no variable's, or declares a type, pieces whose initialisers are
    computed when they run, declarations of `extern` variables that are others' (their types are not
    known yet, or assembly defines them), how many elements such initialisers have, by piece and
    name, names of earlier cells that macros put together or headers declare, those that headers
    were first seen to declare, those that headers need, where declarations begin that look like
    statements, and names of types that parameters of old-style functions hide.
    `again` are the directives of headers that earlier cells include and that do not bear to be
    included twice. `taken_back` are macros of earlier cells' headers, with the directives that
    define them, under whose names headers of the cell declare something else. `first`: the cell's
    headers stand before those that came after them when it was run before."""

    bit_field: bool = False
    temporary: bool = False
    declares: bool = False
    first: bool = False
    again: set[str] = field(default_factory=set)
    computed: set[int] = field(default_factory=set)
    elsewhere: set[int] = field(default_factory=set)
    lengths: dict[tuple[int, str], int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    declarations: set[int] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    taken_back: dict[str, str] = field(default_factory=dict)

    def learn(self, **found: Any) -> bool:
        """Add to these; True if anything of it is new."""
        before = {name: getattr(self, name) for name in found}
        now = {name: before[name] | value for name, value in found.items()}
        for name, value in now.items():
            setattr(self, name, value)
        return now != before


@record
class Reading:
    """A cell that is read.

    `number` is the cell's, `source` its text, cut into `pieces`, of which `written` were written
    otherwise; `notes` are what the others have declared.  `replaces` is the cell whose place this
    one takes, `position` its place in the notebook (0: its number's), `headers` are the user's own,
    by the cell's directives, `leaving` the keys of what a cell of another language is about to
    define.  `again` are cells whose definitions are compiled with it although nothing of them has
    changed.

    `foreign` declares a name that a cell of another language has, `defines` tells whether somebody
    has a name, `cell_of` which cell does, `users` which cells use it; `length` is what a text's
    function gives that has a constant for clang, `header_of` the user's own header of a directive,
    `macros_of` gives the directives that define macros of such headers and of what follows them.
    """

    number: int
    source: str
    pieces: list[Piece]
    notes: Notes
    guesses: Guesses = field(default_factory=Guesses)
    replaces: int = 0
    position: int = 0
    headers: Mapping[str, Header] = field(default_factory=dict)
    leaving: Set[str] = frozenset()
    written: Sequence[Written] = ()
    foreign: Callable[[str], str] = lambda name: ""
    defines: Callable[[str], bool] = lambda name: False
    cell_of: Callable[[str], int] = lambda name: 0
    users: Callable[[str], Iterable[int]] = lambda name: ()
    length: Callable[[str], int] = lambda text: 1
    again: Set[int] = frozenset()
    header_of: Callable[[str], Header | None] = lambda text: None
    macros_of: Callable[[str, str], Mapping[str, str]] = lambda headers, more: {}

    @property
    def place(self) -> int:
        """By which its notes are ordered as they stand in the notebook."""
        return self.position or self.number

    @property
    def given(self) -> Mapping[str, Note]:
        """The notes of what headers of the cell give as other cells did, by key."""
        every = (note for header in self.headers.values() for note in header.types)
        known = self.notes.get
        return {
            key: note for note in every for key in note.keys
            if (was := known(key)) is not None and was.kind == note.kind
        }  # fmt: skip

    def is_replaced(self, note: Note) -> bool:
        """True if a directive is of the cell whose place this one takes."""
        return note.owner == self.replaces
