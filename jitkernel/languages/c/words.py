"""The words of C that say what a declaration is.  C11 6.7, C23, and GNU C."""

from __future__ import annotations

__all__ = [
    "ASSEMBLY",
    "ASSERTIONS",
    "BASIC_TYPES",
    "C23",
    "CONTROL",
    "QUALIFIERS",
    "STORAGE",
    "TAGS",
    "THREAD_LOCAL",
    "TYPE_OPERATORS",
    "WITH_ARGUMENTS",
]

CONTROL = frozenset("if for while do switch goto return break continue case default else".split())
THREAD_LOCAL = frozenset(("_Thread_local", "thread_local", "__thread"))
#: Storage classes and function specifiers.
STORAGE = THREAD_LOCAL | frozenset(
    "typedef extern static auto register inline __inline __inline__ _Noreturn noreturn constexpr"
    " __extension__".split()
)
QUALIFIERS = frozenset(
    "const volatile restrict __const __const__ __restrict __restrict__ __volatile__ __volatile"
    " _Nonnull _Nullable".split()
)
BASIC_TYPES = frozenset(
    "void char short int long float double signed unsigned _Bool bool _Complex __complex__"
    " _Imaginary __int128 __int128_t __uint128_t _Float16 __bf16 _Float128 __float128 __auto_type"
    " __signed__ __builtin_va_list".split()
)
TAGS = frozenset(("struct", "union", "enum"))
#: Operators that give a type.
TYPE_OPERATORS = frozenset(
    "typeof __typeof__ __typeof typeof_unqual __typeof_unqual__ _Atomic _BitInt".split()
)
ASSEMBLY = frozenset(("asm", "__asm__", "__asm"))
#: What has its arguments in parentheses behind it.
WITH_ARGUMENTS = (
    TYPE_OPERATORS
    | ASSEMBLY
    | frozenset(("__attribute__", "__attribute", "__declspec", "_Alignas", "alignas"))
)
ASSERTIONS = frozenset(("_Static_assert", "static_assert"))
#: Words of C23, and the header that gives them before it ("" for none).  C23 6.4.1.
C23 = {
    "bool": "stdbool.h", "true": "stdbool.h", "false": "stdbool.h",
    "alignas": "stdalign.h", "alignof": "stdalign.h",
    "static_assert": "assert.h", "thread_local": "threads.h",
    "constexpr": "", "nullptr": "", "typeof_unqual": "", "char8_t": "",
}  # fmt: skip
