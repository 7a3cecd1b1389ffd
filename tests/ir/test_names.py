"""Names as IR writes them, with LLVM's reader and printer as the judge."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from jitkernel.ir.names import (
    NAME,
    bare,
    decode_name,
    locals_in,
    mentions,
    quote_name,
    symbols_in,
    written,
)

PRINTED = re.compile(rf"^@({NAME}) = global i32 1$", re.M)
#: Any bytes but NUL, which LLVM refuses in names.
BYTES = st.binary(min_size=1, max_size=12).filter(lambda data: 0 not in data)
#: What may stand between quotes: escapes that are some and escapes that are none.
INSIDES = st.lists(
    st.sampled_from([*"a5C2@%;(){}[]<>,=: \n\\zé", "\\\\", "\\22", "\\5c", "\\C3\\A9", "\\FF"]),
    min_size=1,
).map("".join)


def llvm_prints(spelled: str) -> str:
    """A name in LLVM's spelling, given in another."""
    module = binding.parse_assembly(f"@{spelled} = global i32 1", binding.create_context())
    (found,) = PRINTED.findall(str(module))
    return found


@given(BYTES)
@settings(max_examples=300, derandomize=True)
def test_every_name_is_quoted_as_llvm_reads_it_and_read_as_llvm_prints_it(data: bytes) -> None:
    name = data.decode("utf-8", "surrogateescape")
    assert decode_name(quote_name(name)) == name
    assert decode_name(llvm_prints(quote_name(name))) == name


@given(INSIDES)
@settings(max_examples=300, derandomize=True)
def test_escapes_mean_what_they_mean_to_llvm(inside: str) -> None:
    spelled = f'"{inside}"'
    assert decode_name(spelled) == decode_name(llvm_prints(spelled))


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("f", "f"),
        ("$a.b-c_1", "$a.b-c_1"),
        ('"a b"', "a b"),
        (r'"a\\b"', r"a\b"),
        (r'"a\5cb"', r"a\b"),
        (r'"\\5C"', r"\5C"),
        (r'"\22"', '"'),
        (r'"\C3\BC"', "ü"),
        (r'"\FF"', "\udcff"),
        (r'"\zz"', r"\zz"),
        ('"12"', "12"),
        ('"never closed', "never closed"),
        ('"\ud800\\22"', "\ud800\\22"),
    ],
)
def test_decode_name(spelled: str, name: str) -> None:
    assert decode_name(spelled) == name
    assert bare(f"@{spelled}") == bare(spelled) == name


def test_a_long_name_is_read_and_written() -> None:
    name = "\\" * 100_000 + '"'
    assert decode_name(quote_name(name)) == name
    assert decode_name('"' + "\\\\" * 100_000 + '\\22"') == name
    assert symbols_in(f"call void {written(name)}()") == {name}


@pytest.mark.parametrize("sign", "@%$#!")
def test_names_are_found_whatever_else_stands_in_the_text(sign: str) -> None:
    plain = f"  call void {sign}f(ptr %p) ; preds = x\n  ret void, {sign}a.b-1 {sign} {sign}7\n"
    assert mentions(plain, sign) >= {"f", "a.b-1", "7"}
    for more in (f"; {sign}no\n", f'c"{sign}no"', f"/* {sign}no */", f'; "\n{sign}yes ; {sign}no'):
        found = mentions(plain + more, sign)
        assert found == mentions(plain, sign) | ({"yes"} if "yes" in more else set())


def test_only_code_mentions_names() -> None:
    text = '%x = load %pt, ptr @"@no \\\\" ; %comment @no\n store %"a b" %y, c"%s @no" @0 @"0"'
    assert locals_in(text) == {"x", "pt", "a b", "y"}
    assert symbols_in(text) == {"@no \\", "0"}
