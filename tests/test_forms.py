"""Values that were read from a file, and the forms that they are to have."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from jitkernel.forms import Maybe, check, decompress

ROW = (str, int, Maybe(str), [int], [(str, int)])


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (5, int),
        ((1 << 64) - 1, int),
        (True, int),
        ("x", str),
        (None, Maybe(str)),
        ([], [int]),
        ([1, 2], [int]),
        (["a", 1, None, [], [["b", 2]]], ROW),
        ({"a": 1, "more": None}, {"a": int}),
        ([[1, "x"], 2], list),
    ],
)
def test_what_has_its_form(value: Any, form: Any) -> None:
    check(value, form)


@pytest.mark.parametrize(
    ("value", "form", "words"),
    [
        (-1, int, "-1 is no number of 64 bits"),
        (1 << 64, int, "is no number of 64 bits"),
        ([1, 1 << 64], [int], "is no number of 64 bits"),
        (1.0, int, "1.0 is no int"),
        ("1", int, "'1' is no int"),
        (5, str, "5 is no str"),
        ({}, [int], "{} is no list"),
        ("ab", [str], "'ab' is no list"),
        ([1, "x"], [int], "'x' is no int"),
        ([[]], [int], r"\[\] is no int"),
        (["a", 1, None, []], ROW, "has 4 parts instead of 5"),
        (["a", 1, 3, [], []], ROW, "3 is no str"),
        (["a", 1, "", [], [["b"]]], ROW, "has 1 parts instead of 2"),
        ({"b": 1}, {"a": int}, "None is no int"),
        ([], {"a": int}, r"\[\] is no dict"),
        ("x" * 100, int, r"'x{36}\.\.\. is no int"),
    ],
)
def test_what_has_another_form(value: Any, form: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check(value, form)


def test_what_is_unpacked_is_bounded() -> None:
    packed = zlib.compress(b"x" * 1000)
    assert decompress(packed, 1000) == b"x" * 1000
    for data, words in (
        (packed, "more than 999 bytes"),
        (packed[:-4], "early"),
        (packed + b"x", "behind its end"),
        (b"y", "incorrect|early"),
    ):
        with pytest.raises(ValueError, match=words):
            decompress(data, 999 if data is packed else 2000)
    assert decompress(zlib.compress(b""), 10) == b""
