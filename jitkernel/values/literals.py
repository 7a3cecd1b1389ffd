"""Numbers and strings as IR and as people write them.

Binary floating point in LLVM's formats: exact bits from text, shortest text from bits.  Everything
is exact arithmetic, so the results do not depend on the machine.  Formats: IEEE 754 (half, float,
double, fp128), bfloat16, and the x87 format with its explicit integer bit (Intel SDM volume 1,
4.2).  Start from `integer`, `bits_of` and `shortest`.
"""

from __future__ import annotations

import itertools
import math
import struct
from typing import TYPE_CHECKING

from jitkernel.record import record
from jitkernel.regex import regex

if TYPE_CHECKING:  # they are imported where numbers with points are: most cells have none
    from decimal import Decimal
    from fractions import Fraction


@record
class Format:
    """`precision` counts the significand's bits with the leading one; `explicit` where that one is
    stored; `letter` is what LLVM writes behind `0x`; `size` is in bytes as loaded and stored."""

    name: str
    width: int
    precision: int
    max_exponent: int
    letter: str = ""
    explicit: bool = False

    @property
    def min_exponent(self) -> int:
        return 1 - self.max_exponent

    @property
    def stored(self) -> int:
        """Bits of the significand field."""
        return self.precision if self.explicit else self.precision - 1

    @property
    def infinity(self) -> int:
        exponent = 2 * self.max_exponent + 1
        return exponent << self.stored | (1 << self.stored - 1 if self.explicit else 0)


FORMATS = {
    f.name: f
    for f in (
        Format("half", 16, 11, 15, "H"),
        Format("bfloat", 16, 8, 127, "R"),
        Format("float", 32, 24, 127),
        Format("double", 64, 53, 1023),
        Format("x86_fp80", 80, 64, 16383, "K", explicit=True),
        Format("fp128", 128, 113, 16383, "L"),
    )
}
_DECIMAL = regex(r"([-+]?)(\d*)\.?(\d*)(?:[eE]([-+]?\d+))?\Z")
_HEX = regex(r"([-+]?)0x([HKLMR]?)([0-9a-fA-F]+)\Z")


def rounded(value: Fraction, form: Format) -> int:
    """The bits of a value >= 0, rounded to nearest, ties to even; infinity beyond the largest."""
    if not value:
        return 0
    from fractions import Fraction

    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, form.min_exponent)
    shift = form.precision - 1 - exponent  # the significand is value * 2**shift
    top = value.numerator << max(shift, 0)
    bottom = value.denominator << max(-shift, 0)
    whole, rest = divmod(top, bottom)
    if rest * 2 > bottom or (rest * 2 == bottom and whole & 1):
        whole += 1
    if whole >> form.precision:
        whole >>= 1
        exponent += 1
    if exponent > form.max_exponent:
        return form.infinity
    if not whole >> form.precision - 1:  # below the normal numbers: the exponent field is 0
        return whole
    field = exponent + form.max_exponent
    return field << form.stored | (whole if form.explicit else whole & (1 << form.stored) - 1)


def bits_of(text: str, form: Format) -> int:
    """The bits of a number written in decimal, as `inf` or `nan`, or in LLVM's hex form for this
    format.

    Raises ValueError with a sentence: no such number, the hex form of another format, or beyond the
    largest finite value.
    """
    plain = text.replace("_", "")
    found = _HEX.match(plain)
    if found:
        return _hex_bits(found[1], found[2], found[3], form, text)
    if plain.lstrip("+-") in ("inf", "nan"):
        return from_number(float(plain), form)
    match = _DECIMAL.match(plain)
    if not match or not (match[2] or match[3]):
        raise ValueError(f"'{text}' is no number")
    sign = 1 << form.width - 1 if match[1] == "-" else 0
    digits = (match[2] + match[3]).lstrip("0")
    if len(digits) > 4000:  # more digits than any format can tell apart, beyond Python's own limit
        raise ValueError(f"{text[:20]}... has more than 4000 digits")
    power = int((match[4] or "0")[:9]) - len(match[3])
    if not digits or power + len(digits) < -20000:
        return sign
    if power + len(digits) > 20000:
        raise ValueError(f"{text} is beyond the largest {form.name}")
    from fractions import Fraction

    number = Fraction(int(digits)) * (Fraction(10) ** power)
    bits = rounded(number, form)
    if bits >= form.infinity and not (form.explicit and bits < form.infinity):
        raise ValueError(f"{text} is beyond the largest {form.name}")
    return sign | bits


def _hex_bits(sign: str, letter: str, digits: str, form: Format, text: str) -> int:
    value = int(digits, 16)
    if sign:
        raise ValueError(f"{text}: the hex form of a float holds its sign in its bits")
    if letter != form.letter:
        expected = f"0x{form.letter}"
        raise ValueError(f"{text} is no {form.name}: its hex form begins with {expected}")
    if form.name == "fp128":  # LLVM writes the two halves of fp128 with the low one first
        value = (value & (1 << 64) - 1) << 64 | value >> 64
    if form.name == "float":  # ... and a float as the double that it is exactly
        double = FORMATS["double"]
        narrow = convert(_bits_in(value, double, text), double, form)
        if convert(narrow, form, double) != value:
            raise ValueError(f"{text} is not exact in float")
        return narrow
    return _bits_in(value, form, text)


def _bits_in(value: int, form: Format, text: str) -> int:
    if value >> form.width:
        raise ValueError(f"{text} has more than {form.width} bits")
    return value


def fraction_of(bits: int, form: Format) -> Fraction:
    """The exact value of finite bits, sign included."""
    from fractions import Fraction

    negative = bits >> form.width - 1 & 1
    field = bits >> form.stored & (2 * form.max_exponent + 1)
    significand = bits & (1 << form.stored) - 1
    if field and not form.explicit:
        significand |= 1 << form.stored
    exponent = max(field, 1) - form.max_exponent - form.precision + 1
    value = significand * Fraction(2) ** exponent
    return -value if negative else value


def _is_finite(bits: int, form: Format) -> bool:
    field = bits >> form.stored & (2 * form.max_exponent + 1)
    if field == 2 * form.max_exponent + 1:
        return False
    # x87 knows encodings that no operation gives, where the integer bit contradicts the exponent.
    return not form.explicit or bool(field) == bool(bits >> form.stored - 1 & 1)


def hex_text(bits: int, form: Format) -> str:
    """The bits as LLVM writes them: `0x7FF0000000000000`, `0xH7C00`."""
    if form.name == "float":
        bits, form = convert(bits, form, FORMATS["double"]), FORMATS["double"]
    if form.name == "fp128":
        bits = (bits & (1 << 64) - 1) << 64 | bits >> 64
    return f"0x{form.letter}{bits:0{form.width // 4}X}"


def remark(bits: int, form: Format) -> str:
    """The meaning of the hex form of these bits: `inf`, `-inf`, `nan`; empty for finite ones."""
    if _is_finite(bits, form):
        return ""
    value = to_double(bits, form)
    return "nan" if value != value else "inf" if value > 0 else "-inf"


def shortest(bits: int, form: Format) -> str:
    """The shortest decimal that reads back as these bits; LLVM's hex form for what is not finite.

    A decimal always has a point, as IR wants it: `0.1`, `1.0`, `1.0e+30`.
    """
    decimal = decimal_of(bits, form)
    if decimal is None:
        return hex_text(bits, form)
    sign = "-" if bits >> form.width - 1 else ""
    if not decimal:
        return sign + "0.0"
    digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0")
    return sign + _layout(digits, decimal.adjusted() + 1)


def decimal_of(bits: int, form: Format) -> Decimal | None:
    """The shortest decimal that reads back as these bits, without the sign; None for what is not
    finite.

    Tries 1, 2, 3... significant digits until the nearest decimal rounds back to the same bits;
    at a power of two it may be the one above that does.
    """
    from decimal import ROUND_CEILING, ROUND_HALF_UP, Context, Decimal
    from fractions import Fraction

    if not _is_finite(bits, form):
        return None
    magnitude = bits & (1 << form.width - 1) - 1
    if not magnitude:
        return Decimal(0)
    if form.name == "double":  # the same, and quick
        return Decimal(repr(to_double(magnitude, form)))
    value = fraction_of(magnitude, form)
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    for digits in itertools.count(1):
        for rounding in (ROUND_HALF_UP, ROUND_CEILING):
            found = Context(prec=digits, rounding=rounding).divide(top, bottom)
            if rounded(Fraction(found), form) == magnitude:
                return found
    raise AssertionError  # some number of digits is always enough


def _layout(digits: str, power: int) -> str:
    """0.DIGITS * 10**power in the manner of Python's repr, with a point in any case."""
    if -4 < power <= 16:
        if power <= 0:
            return "0." + "0" * -power + digits
        if len(digits) <= power:
            return digits + "0" * (power - len(digits)) + ".0"
        return digits[:power] + "." + digits[power:]
    return f"{digits[0]}.{digits[1:] or '0'}e{power - 1:+03d}"


def to_double(bits: int, form: Format) -> float:
    """The value as a Python float, rounded to nearest where the format holds more."""
    double = convert(bits, form, FORMATS["double"])
    found: float = struct.unpack("<d", double.to_bytes(8, "little"))[0]
    return found


def convert(bits: int, source: Format, target: Format) -> int:
    """The same number in another format, rounded; a NaN keeps its payload as far as it goes."""
    if source is target:
        return bits
    sign = (bits >> source.width - 1) << target.width - 1
    magnitude = bits & (1 << source.width - 1) - 1
    if _is_finite(bits, source):
        return sign | rounded(fraction_of(magnitude, source), target)
    if magnitude == source.infinity:
        return sign | target.infinity
    payload = magnitude & (1 << source.precision - 1) - 1
    shift = target.precision - source.precision
    payload = payload << shift if shift >= 0 else payload >> -shift
    return sign | target.infinity | (payload or 1 << target.precision - 2)


def from_number(value: int | float, form: Format) -> int:
    """The bits of a Python number, rounded to nearest.  Raises ValueError beyond the largest."""
    from fractions import Fraction

    if isinstance(value, float):
        bits = int.from_bytes(struct.pack("<d", value), "little")
        found = convert(bits, FORMATS["double"], form)
        if not math.isfinite(value):
            return found
    else:
        found = rounded(Fraction(abs(value)), form) | (value < 0) << form.width - 1
    if not _is_finite(found, form):
        raise ValueError(f"{value} is beyond the largest {form.name}")
    return found


# -- integers and strings --------------------------------------------------------------------------

_MOST_DIGITS = 4000  # Python itself refuses to read more than 4300


def integer(text: str, bits: int) -> int:
    """The number that `text` spells: decimal, `0x`, `0b`, LLVM's `u0x` and `s0x`, with `_` between
    digits.  `bits` is the width that `s0x` takes its sign from.  Raises ValueError."""
    plain = text.replace("_", "")
    sign, digits = (-1, plain[1:]) if plain[:1] == "-" else (1, plain.removeprefix("+"))
    try:
        if digits[:3] in ("u0x", "s0x"):
            value = int(digits[3:], 16)
            if digits[0] == "s" and value >> bits - 1:
                value -= 1 << max(bits, value.bit_length())
        elif digits[:2] == "0x":
            value = int(digits[2:], 16)
        elif digits[:2] == "0b":
            value = int(digits[2:], 2)
        elif len(digits) > _MOST_DIGITS:
            raise ValueError(
                f"a number of {len(digits)} decimal digits is too long; write it in hex"
            )
        else:
            value = int(digits)
    except ValueError as error:
        if "decimal digits" in str(error):
            raise
        raise ValueError(f"{text[:40]} is no integer") from None
    return sign * value
