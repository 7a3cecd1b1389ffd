"""Values of a program that stands, set to what somebody has typed.  Start from `assign`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.regex import regex
from jitkernel.session.debugging.numbers import converted, encode
from jitkernel.session.debugging.values import Value, bytes_of, type_text
from jitkernel.values import literals
from jitkernel.values.c_numbers import NAMED
from jitkernel.values.datatype import DataType

if TYPE_CHECKING:
    from jitkernel.elf.dwarf import Read

__all__ = ["assign", "unescaped", "with_bits"]

_LINE = 80  # characters of a text in messages
_ESCAPE = regex(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|(.))")
_ESCAPES = dict(zip("abfnrtve", "\a\b\f\n\r\t\v\x1b", strict=True))
_NULLS = ("NULL", "null", "nullptr", "0")


def assign(value: Value, text: str, read: Read) -> bytes:
    """The bytes of the value that `text` spells, of its type: to be put where the value is.  Those
    of a bit-field have the bits around it as they are.

    Numbers in the forms of C and of LLVM, characters, names of an enum's constants, `true`,
    `NULL`, addresses, texts for arrays of characters.  Raises UsageError, which says what is
    expected.
    """
    text, bare = text.strip(), value.type.bare
    if value.absent:
        raise UsageError(f"nothing can be set here: {value.absent.strip('<>')}")
    try:
        found = _parsed(bare, text, value.bits)
    except ValueError as error:
        raise UsageError(
            f"'{text[:_LINE]}' is no value of type {type_text(value)}: {error}"
        ) from None
    return with_bits(value, found, read) if value.bits else found


def with_bits(value: Value, data: bytes, read: Read) -> bytes:
    """The bytes that a bit-field is in, with its bits from a number's `data`."""
    around = bytes_of(value, read)
    if around is None:
        raise UsageError("the bytes around the bit-field cannot be read")
    mask = (1 << value.bits) - 1
    whole = int.from_bytes(around, "little") & ~(mask << value.shift)
    whole |= (int.from_bytes(data, "little") & mask) << value.shift
    return whole.to_bytes(len(around), "little")


def _parsed(type: DataType, text: str, bits: int) -> bytes:
    match type.kind:
        case "bool" | "int" | "enum":
            number = _whole(type, text)
            low, high = _range(type, bits)
            if not low <= number <= high:
                raise ValueError(f"expected {_expected(type, low, high)}")
            width = 1 << 8 * type.size
            return (number % width).to_bytes(type.size, "little")
        case "float":
            return _real(type, text)
        case "complex":
            return _complex(type, text)
        case "pointer":
            if text in _NULLS:
                return bytes(type.size)
            try:
                address = int(text, 0)
            except ValueError:
                raise ValueError("expected an address, such as 0x7f00, or NULL") from None
            if not 0 <= address < 1 << 8 * type.size:
                raise ValueError(f"expected an address of {8 * type.size} bits")
            return address.to_bytes(type.size, "little")
        case "array" if text[:1] == '"' and _is_characters(type):
            data = unescaped(text, '"')
            if len(data) > type.count:
                raise ValueError(f"the text has {len(data)} bytes, the array {type.count}")
            return data.ljust(type.count, b"\0")
    what = "a text, or one element at a time" if _is_characters(type) else "one part at a time"
    raise ValueError(f"it is set {what}" if what[0] == "o" else f"expected {what}")


def _is_characters(type: DataType) -> bool:
    of = type.element
    return type.kind == "array" and of is not None and (of.bare.kind, of.bare.size) == ("int", 1)


def _range(type: DataType, bits: int) -> tuple[int, int]:
    """The least and the largest number; LLVM's integers have either sign."""
    if type.kind == "bool":
        return 0, 1
    width = bits or (type.bits if type.kind == "int" else 8 * type.size)
    low = 0 if type.signed is False else -1 << width - 1
    return low, (1 << (width if type.signed is not True else width - 1)) - 1


def _expected(type: DataType, low: int, high: int) -> str:
    names = [name for name, _ in type.constants]
    if type.kind == "bool":
        return "true or false"
    if names:
        return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") + ", or a number"
    characters = ", or a character such as 'a'" if type.size == 1 and type.kind == "int" else ""
    return f"an integer from {low} to {high}{characters}"


def _whole(type: DataType, text: str) -> int:
    constants = dict(type.constants)
    if text in constants:
        return constants[text]
    if text in ("true", "false") and (type.kind == "bool" or type.bits == 1):
        return int(text == "true")
    if text[:1] == "'":
        data = unescaped(text, "'")
        if len(data) != 1:
            raise ValueError("expected one character")
        return data[0] - 256 if data[0] > 127 and type.signed is not False else data[0]
    plain = text.rstrip("uUlL") if text[:2].lower() != "0b" else text
    sign, digits = (-1, plain[1:]) if plain[:1] == "-" else (1, plain.removeprefix("+"))
    try:
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            return sign * int(digits, 8)
        return literals.integer(plain, type.bits or 8 * type.size)
    except ValueError:
        low, high = _range(type, 0)
        raise ValueError(f"expected {_expected(type, low, high)}") from None


def _real(type: DataType, text: str) -> bytes:
    form = type.form
    if form is None:
        raise ValueError("such numbers are not set here")
    plain = text.lower().replace("infinity", "inf")
    hexadecimal = "0x" in plain and ("p" in plain or "." in plain)
    if not hexadecimal and not plain.endswith("inf") and not plain.startswith("0x"):
        plain = plain.rstrip("fl")
    try:
        if hexadecimal:
            return encode(type, converted(float.fromhex(plain.rstrip("l")), type))
        bits = literals.bits_of(text if plain.startswith("0x") else plain, form)
    except (ValueError, OverflowError) as error:
        said = str(error)
        why = said if "beyond" in said or "exact" in said else "expected a number such as 1.5"
        raise ValueError(why) from None
    return bits.to_bytes(type.size, "little")


def _complex(type: DataType, text: str) -> bytes:
    of = NAMED[type.name.removesuffix(" _Complex")]
    try:
        number = complex(text.replace(" ", "").replace("f", "").replace("i", "j").strip("()"))
    except ValueError:
        raise ValueError("expected a number such as 1.5 + 2i") from None
    return encode(of, converted(number.real, of)) + encode(of, converted(number.imag, of))


def unescaped(text: str, quote: str) -> bytes:
    """The bytes of a character or a text in quotes.  C11 6.4.4.4."""
    if len(text) < 2 or text[-1] != quote:
        raise ValueError(f"{quote} is missing at the end")
    found, at = bytearray(), 0
    inner = text[1:-1]
    for match in _ESCAPE.finditer(inner):
        found += inner[at : match.start()].encode("utf-8", "surrogateescape")
        at = match.end()
        if match[1] or match[2]:
            found.append(int(match[1] or match[2], 16 if match[1] else 8) & 255)
        else:
            found += _ESCAPES.get(match[3], match[3]).encode("utf-8", "surrogateescape")
    return bytes(found + inner[at:].encode("utf-8", "surrogateescape"))
