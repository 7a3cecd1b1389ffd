"""Names of C's types within expressions: `struct pt *`, `unsigned long`, `int (*)[3]`.

C11 6.7.7.  Start from `TypeNames`.
"""

from __future__ import annotations

from collections.abc import Callable

from jitkernel.session.debugging.lexing import Stream, Token
from jitkernel.values.c_numbers import number_type
from jitkernel.values.datatype import VOID, DataType

__all__ = ["TypeNames", "pointer_to"]

_WORDS = frozenset(
    "void char short int long signed unsigned float double _Bool bool const volatile restrict "
    "struct union enum __int128 _Float16 __float128 _Float128".split()
)
_QUALIFIERS = ("const", "volatile", "restrict")


class TypeNames:
    """Reads them from a stream: `types` gives types by name, `is_variable` says what is none, and
    `count` reads the number of elements of an array."""

    def __init__(
        self,
        stream: Stream,
        types: Callable[[str], DataType | None],
        is_variable: Callable[[str], bool],
        count: Callable[[], int],
    ):
        self.stream, self.types, self.is_variable, self.count = stream, types, is_variable, count

    def cast_type(self) -> DataType | None:
        """The type in parentheses that stands here; None, and nothing is read, where none does."""
        start = self.stream.at
        self.stream.at += 1
        type = self.type_name()
        if type is None:
            self.stream.at = start
            return None
        self.stream.expect(")")
        return type

    def type_name(self) -> DataType | None:
        """C11 6.7.7; None where no type stands."""
        words: list[str] = []
        type: DataType | None = None
        while (token := self.stream.token).kind == "name":
            if token.text in ("struct", "union", "enum"):
                self.stream.at += 1
                type = self.known(f"{token.text} {self.stream.next().text}", token)
            elif token.text in _WORDS and not self.is_variable(token.text):
                self.stream.at += 1
                words += [token.text] if token.text not in _QUALIFIERS else []
            elif words or type is not None or self.is_variable(token.text):
                break
            else:
                type = self.types(token.text)
                if type is None:
                    return None
                self.stream.at += 1
        if words:
            type = VOID if words == ["void"] else number_type(" ".join(words))
            if type is None:
                raise self.stream.failed(f"'{' '.join(words)}' is no type")
        return None if type is None else self.declarator(type)

    def known(self, name: str, token: Token) -> DataType:
        found = self.types(name)
        if found is None:
            raise self.stream.failed(f"no type here is called {name}", token)
        return found

    def declarator(self, type: DataType) -> DataType:
        """The text that follows a type's words: `*`, `(*)`, `[3]`, `(int)`."""
        with self.stream.nested():
            while self.stream.accept("*"):
                type = pointer_to(type)
                while self.stream.token.text in _QUALIFIERS:
                    self.stream.at += 1
            inner: int | None = None
            if self.stream.token.text == "(" and self.stream.tokens[self.stream.at + 1].text in (
                "*",
                "(",
            ):
                inner = self.stream.at
                self.skipped()
            type = self.suffixes(type)
            if inner is not None:
                after, self.stream.at = self.stream.at, inner + 1
                type = self.declarator(type)
                self.stream.expect(")")
                self.stream.at = after
            return type

    def suffixes(self, type: DataType) -> DataType:
        counts: list[int] = []
        while self.stream.token.text in ("[", "("):
            if self.stream.token.text == "(":
                self.skipped()
                return DataType("function", element=type, variadic=True)
            self.stream.at += 1
            counts.append(self.count())
            self.stream.expect("]")
        for count in reversed(counts):
            size = count * type.bare.size
            type = DataType("array", size=size, bits=8 * size, element=type, count=count)
        return type

    def skipped(self) -> None:
        """Go behind the parenthesis that closes the one here."""
        open_ = 0
        while True:
            token = self.stream.next()
            open_ += (token.text == "(") - (token.text == ")")
            if not open_:
                return
            if token.kind == "end":
                raise self.stream.failed("')' is missing")


def pointer_to(type: DataType) -> DataType:
    """The type of pointers to a type."""
    return DataType("pointer", size=8, align=8, bits=64, element=type)
