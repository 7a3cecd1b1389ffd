"""The parts of a signature that LLVM's C interface does not tell, read from the cell's text.

Start from `headers`.
"""

from __future__ import annotations

from jitkernel.ir.attributes import values
from jitkernel.ir.module import functions
from jitkernel.ir.text import closing, integer_bits
from jitkernel.regex import regex

# Attributes by which a callee finds what it is passed, and those of them that are of a type.
_PASSED = "signext zeroext noext inreg nest swiftself swifterror swiftasync".split()
_OF_A_TYPE = "byval byref sret preallocated inalloca".split()
# What a source must hold for any function of it to have something to report here; most have none.
_MARKS = (*_PASSED, *_OF_A_TYPE, "cc ", "cc\t", "cc\n")

# LLVM's names for the numbers that `cc N` may use (llvm/IR/CallingConv.h, AsmWriter.cpp).
_NUMBERED = {
    "0": "",
    "8": "fastcc",
    "9": "coldcc",
    "10": "ghccc",
    "13": "anyregcc",
    "14": "preserve_mostcc",
    "15": "preserve_allcc",
    "16": "swiftcc",
    "17": "cxx_fast_tlscc",
    "18": "tailcc",
    "19": "cfguard_checkcc",
    "20": "swifttailcc",
    "21": "preserve_nonecc",
    "64": "x86_stdcallcc",
    "65": "x86_fastcallcc",
    "70": "x86_thiscallcc",
    "75": "intel_ocl_bicc",
    "78": "x86_64_sysvcc",
    "79": "win64cc",
    "80": "x86_vectorcallcc",
    "83": "x86_intrcc",
    "92": "x86_regcallcc",
}

_CONVENTION = regex(r"(?<![%\w.$-])(?:cc\s*(\d+)|([a-z]\w*cc))(?![\w.$-])")
# No part of a name: `%nest`, `%struct.nest`, `%"inreg"`.
_PASSING = regex(
    rf'(?<![%\w.$"-])(?:({"|".join(_PASSED)})(?![\w.$"-])|({"|".join(_OF_A_TYPE)})\s*(?=\())'
)
_ALIGN = regex(r"\balign\s+(\d+)")
_WIDE = regex(r"<(\d+) x ([^>]+)>")
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64, "fp128": 128}


def alignment(text: str) -> int:
    """The number behind `align` in attributes or behind a variable's value; 0 where none is."""
    match = _ALIGN.search(text)
    return int(match[1]) if match else 0


def may_matter(source: str) -> bool:
    """True if a function in `source` can have a convention or passing attributes at all."""
    return any(mark in source for mark in _MARKS)


def headers(source: str) -> dict[str, tuple[str, str]]:
    """Calling convention and canonical passing attributes of the functions in `source`, by name.

    `define internal fastcc signext i8 @f(ptr byval(%pt) align 8 %x) #0 {` gives
    `{"f": ("fastcc", "signext|0:byval(%pt) align 8")}`.
    """
    found = {}
    for function in functions(source):
        parameters = []
        for number, text in enumerate(function.parameters):
            if words := _passing(text):
                parameters.append(f"{number}:{words}")
        result = _passing(function.words)
        attributes = f"{result}|{','.join(parameters)}" if result or parameters else ""
        found[function.name] = (convention(function.words), attributes)
    return found


def convention(head: str) -> str:
    """The calling convention among the words before a function's or a callee's name."""
    match = _CONVENTION.search(head) if "cc" in head else None
    if not match:
        return ""
    if match[1]:
        return _NUMBERED.get(match[1], f"cc {match[1]}")
    return "" if match[2] == "ccc" else match[2]


def _passing(text: str) -> str:
    """The passing attributes in the text of one parameter, or before a function's name."""
    words, indirect = [], False
    for match in _PASSING.finditer(text):
        if match[1]:
            words.append(match[1])
        else:
            end = closing(text, match.end())
            words.append(match[2] + " ".join(text[match.end() : end].split()))
            indirect = True
    words.sort()
    if indirect and (align := alignment(text)):
        words.append(f"align {align}")
    return " ".join(words)


def abi_features(type_text: str, attributes: str, host: str) -> str:
    """The features that decide how wide vectors and small floats are passed, "" where none is.

    `attributes` is the text of the function's attributes, which may name its own
    `target-features`; without them those of the host count (psABI 3.2.3: vectors of 256 and 512
    bits go in registers only with AVX and AVX-512).
    """
    widest = max((_bits(*match.groups()) for match in _WIDE.finditer(type_text)), default=0)
    small = "half" in type_text or "bfloat" in type_text
    if widest <= 128 and not small:
        return ""
    features = (*values(attributes, "target-features"), host)[0]
    enabled = set(features.split(","))
    words = []
    if widest > 128:
        limit = 128
        if "+avx" in enabled or "+avx2" in enabled or "+avx512f" in enabled:
            limit = 256
        if "+avx512f" in enabled:
            prefer, *_ = (*values(attributes, "prefer-vector-width"), 512)
            legal, *_ = (*values(attributes, "min-legal-vector-width"), 512)
            limit = 512 if max(int(prefer), int(legal)) >= 512 else 256
        words.append(f"vectors of {min(limit, 512)} bits")
    if small:
        words.append("no sse2" if "-sse2" in enabled else "sse2")
    return ", ".join(words)


def _bits(count: str, element: str) -> int:
    width = integer_bits(element) or _WIDTHS.get(element, 64)
    return int(count) * width
