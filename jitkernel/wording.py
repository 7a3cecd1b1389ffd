"""Phrases that messages and displays share: counts, sizes, lists that are cut, the nearest word.

Start from `counted` and `did_you_mean`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_MISSPELT = 1_000  # letters; of a longer word nobody asks what it was to be


def counted(number: int, what: str, form: str = "") -> str:
    """`1 cell`, `3 cells`; `form` is how the number is written, such as `,`."""
    return f"{number:{form}} {what}{'s' * (number != 1)}"


def size_text(count: int) -> str:
    """Bytes for reading: `6 B`, `12.5 KiB`, `1.0 GiB`."""
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if abs(value) < 1024 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"


def cut_list(words: Sequence[str], most: int, between: str = ", ") -> str:
    """At most so many words; of the others, how many there are: `@a, @b and 2 more`."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return between.join(words[:most]) + more


def listed(words: Sequence[str]) -> str:
    """A list of what is in the way, a line each: the first ten, and how many more."""
    lines = [f"  {w}" for w in words[:10]]
    return "\n".join([*lines, f"  and {len(words) - 10} more"] if words[10:] else lines)


def did_you_mean(
    word: str,
    known: Iterable[str],
    show: Callable[[str], str] = str,
    otherwise: str = "",
    cutoff: float = 0.6,
) -> str:
    """`; did you mean X?` with what is most like `word`, and is not it, as `show` writes it, else
    `otherwise`."""
    import difflib

    if len(word) > _MISSPELT:
        return otherwise
    near = difflib.get_close_matches(word, [other for other in known if other != word], 1, cutoff)
    return f"; did you mean {show(near[0])}?" if near else otherwise
