"""Floating point text and bits, against Python's own float, struct and LLVM."""

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitkernel.values.literals import (
    FORMATS,
    bits_of,
    convert,
    fraction_of,
    from_number,
    hex_text,
    shortest,
    to_double,
)

HALF, BFLOAT, FLOAT, DOUBLE = (FORMATS[n] for n in ("half", "bfloat", "float", "double"))
X87, QUAD = FORMATS["x86_fp80"], FORMATS["fp128"]


def pack(code: str, value: float) -> int:
    return int.from_bytes(struct.pack("<" + code, value), "little")


REFUSED = (
    r"is no (number|double|half)|holds its sign|has more than|is beyond|is not exactly|not exact"
)


@pytest.mark.parametrize(
    ("text", "form", "bits"),
    [
        ("0.1", DOUBLE, 0x3FB999999999999A),
        ("0.1", FLOAT, 0x3DCCCCCD),
        ("0.1", HALF, 0x2E66),
        ("0.1", BFLOAT, 0x3DCD),
        ("0.1", X87, 0x3FFBCCCCCCCCCCCCCCCD),
        ("0.1", QUAD, 0x3FFB999999999999999999999999999A),
        ("1", FLOAT, 0x3F800000),
        ("-1.5e0", FLOAT, 0xBFC00000),
        ("-0.0", DOUBLE, 1 << 63),
        ("1e-400", DOUBLE, 0),
        ("4.9e-324", DOUBLE, 1),
        ("2.4e-324", DOUBLE, 0),
        ("65504", HALF, 0x7BFF),
        ("65519.99", HALF, 0x7BFF),
        ("1e999999999999", DOUBLE, None),
        ("65520", HALF, None),
        ("1e309", DOUBLE, None),
        ("1_000.5", DOUBLE, 0x408F440000000000),
        (".5", FLOAT, 0x3F000000),
        ("0x7FF0000000000000", DOUBLE, 0x7FF0000000000000),
        ("0x3FB99999A0000000", FLOAT, 0x3DCCCCCD),
        ("0x3FB999999999999A", FLOAT, None),  # not exact in float
        ("0x7FF8000000000000", FLOAT, 0x7FC00000),
        ("0xH7C00", HALF, 0x7C00),
        ("0xR7F80", BFLOAT, 0x7F80),
        ("0xK3FFF8000000000000000", X87, 0x3FFF8000000000000000),
        ("0xL00000000000000003FFF000000000000", QUAD, 0x3FFF0000000000000000000000000000),
        ("0xH7C00", DOUBLE, None),
        ("0x7C00", HALF, None),
        ("-0x10", DOUBLE, None),
        ("0x10000000000000000", DOUBLE, None),
        ("abc", DOUBLE, None),
        (".", DOUBLE, None),
        ("9" * 5000, DOUBLE, None),
    ],
)
def test_bits(text, form, bits):
    if bits is None:
        with pytest.raises(ValueError, match=REFUSED):
            bits_of(text, form)
    else:
        assert bits_of(text, form) == bits


@pytest.mark.parametrize(
    ("bits", "form", "text"),
    [
        (0x3FB999999999999A, DOUBLE, "0.1"),
        (0x3DCCCCCD, FLOAT, "0.1"),
        (0x2E66, HALF, "0.1"),
        (0x3DCD, BFLOAT, "0.1"),
        (0x3FFBCCCCCCCCCCCCCCCD, X87, "0.1"),
        (0x3FFB999999999999999999999999999A, QUAD, "0.1"),
        (0x4640000000000000, DOUBLE, "2.535301200456459e+30"),
        (pack("d", 1e30), DOUBLE, "1.0e+30"),
        (pack("d", 1e16), DOUBLE, "1.0e+16"),
        (pack("d", 123456789.0), DOUBLE, "123456789.0"),
        (pack("d", 1e-5), DOUBLE, "1.0e-05"),
        (1 << 63, DOUBLE, "-0.0"),
        (1, DOUBLE, "5.0e-324"),
        (1, HALF, "6.0e-08"),
        (0x7BFF, HALF, "65500.0"),
        (0xFF800000, FLOAT, "0xFFF0000000000000"),
        (0x7FC00000, FLOAT, "0x7FF8000000000000"),
        (0x7C00, HALF, "0xH7C00"),
        (0x7FFF8000000000000000, X87, "0xK7FFF8000000000000000"),
        (0x3FFF0000000000000000, X87, "0xK3FFF0000000000000000"),  # no operation gives this
        (0x00008000000000000000, X87, "0xK00008000000000000000"),  # nor this
    ],
)
def test_shortest(bits, form, text):
    assert shortest(bits, form) == text


@given(st.floats(allow_nan=False))
@settings(max_examples=100)
def test_double_is_pythons(value):
    bits = pack("d", value)
    text = shortest(bits, DOUBLE)
    assert bits_of(text, DOUBLE) == bits
    assert to_double(bits, DOUBLE) == value
    if math.isfinite(value):
        assert float(text) == value
        assert bits_of(repr(value), DOUBLE) == bits
        assert fraction_of(bits, DOUBLE) == Fraction(value)


@given(st.integers(0, (1 << 32) - 1))
@settings(max_examples=100)
def test_float_is_structs(bits):
    value = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    if math.isnan(value):
        assert math.isnan(to_double(bits, FLOAT))
    else:
        assert to_double(bits, FLOAT) == value
        assert bits_of(repr(value), FLOAT) == bits if math.isfinite(value) else True
    assert bits_of(shortest(bits, FLOAT), FLOAT) == bits


@given(st.decimals(allow_nan=False, allow_infinity=False))
@settings(max_examples=100)
def test_decimals_round_as_pythons(number):
    text = str(number)
    value = float(text)
    if math.isinf(value):
        with pytest.raises(ValueError, match="is beyond the largest double"):
            bits_of(text, DOUBLE)
    else:
        assert bits_of(text, DOUBLE) == pack("d", value)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_every_format_reads_back(form):
    @given(st.integers(0, (1 << form.width) - 1))
    @settings(max_examples=150)
    def run(bits):
        text = shortest(bits, form)
        assert bits_of(text, form) == bits
        assert bits_of(hex_text(bits, form), form) == bits

    run()


def test_all_halves():
    for bits in range(1 << 16):
        value = struct.unpack("<e", bits.to_bytes(2, "little"))[0]
        if math.isfinite(value):
            if bits % 16 == 0:
                assert bits_of(shortest(bits, HALF), HALF) == bits
            assert to_double(bits, HALF) == value
            assert from_number(value, HALF) == bits


def test_llvm_reads_what_is_written(llvm):
    """Hex forms mean to LLVM what they mean here; decimals that it calls exact, too."""
    for form in FORMATS.values():
        for bits in (
            0,
            1,
            bits_of("1.5", form),
            form.infinity,
            bits_of("0.1", form),
            bits_of("-2", form),
        ):
            data = bits.to_bytes(form.width // 8, "little")
            assert llvm.bytes_of(f"{form.name} {hex_text(bits, form)}", len(data)) == data
    assert llvm.bytes_of("double 0.1", 8) == bits_of("0.1", DOUBLE).to_bytes(8, "little")
    assert llvm.bytes_of("float 0.5", 4) == bits_of("0.5", FLOAT).to_bytes(4, "little")


def test_conversion():
    assert convert(bits_of("0.1", FLOAT), FLOAT, DOUBLE) == pack(
        "d", struct.unpack("<f", struct.pack("<f", 0.1))[0]
    )
    assert convert(pack("d", 1e300), DOUBLE, FLOAT) == FLOAT.infinity
    assert convert(1 << 31 | FLOAT.infinity, FLOAT, DOUBLE) == 1 << 63 | DOUBLE.infinity
    assert convert(0x7FC00000, FLOAT, DOUBLE) == 0x7FF8000000000000
    assert from_number(float("nan"), HALF) == 0x7E00
    assert from_number(-(2**70), DOUBLE) == pack("d", -(2.0**70))
    with pytest.raises(ValueError, match="is beyond the largest double"):
        from_number(10**400, DOUBLE)
    with pytest.raises(ValueError, match="is beyond the largest float"):
        from_number(1e300, FLOAT)
