"""Types of numbers by C's words for them."""

from __future__ import annotations

import pytest

from jitkernel.values.c_numbers import number_type


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("signed", "int"), ("int signed", "int"), ("long unsigned int", "unsigned long"),
        ("int long long signed", "long long"), ("unsigned", "unsigned int"), ("short int", "short"),
        ("char signed", "signed char"), ("__int128 unsigned", "unsigned __int128"), ("bool", "_Bool"),
        ("double long", "long double"), ("_Complex float", "float _Complex"), ("size_t", "unsigned long"),
        ("_Float128", "__float128"), ("int8_t", "signed char"), ("ptrdiff_t", "long"),
        ("", ""), ("int float", ""), ("char char", ""), ("void", ""), ("i32", ""),
    ],
)  # fmt: skip
def test_words_in_any_order_are_a_type(words: str, name: str) -> None:
    found = number_type(words)
    assert (found.name if found is not None else "") == name
