"""Functions that every session knows without a declaration."""

from __future__ import annotations

import weakref

from jitkernel.languages.llvm.prelude import PRELUDE, prelude_type


class Name(str):
    """A name whose end can be seen."""


def test_each_has_a_type():
    assert all(f"declare {prelude_type(n).result} @{n}(" in PRELUDE[n] for n in PRELUDE)


def test_names_that_nobody_knows_are_not_kept():
    name = Name("nobody")
    gone = weakref.ref(name)
    assert prelude_type(name) is None
    del name
    assert gone() is None
