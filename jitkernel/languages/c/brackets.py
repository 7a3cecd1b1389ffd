"""Which bracket of a cell is the wrong one, where they do not fit together.  Start from
`wrong_bracket`.

Where a `}` is missing, all that follows is one block deeper, and a parser notices at the end.  Who
indents has said where each block ends: the first `}` that stands elsewhere than its `{` tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.languages.c.tokens import CLOSING, Token
from jitkernel.languages.c.words import CONTROL
from jitkernel.record import field, record


def wrong_bracket(source: str, found: Sequence[Token]) -> tuple[str, Token] | None:
    """The error and the token to blame, in a text with these tokens; None where every bracket is
    closed."""
    return _Brackets(source.split("\n")).judge(found)


@record(frozen=False)
class _Brackets:
    """The brackets of a text with these lines, from left to right."""

    lines: Sequence[str]
    open: list[tuple[Token, int]] = field(default_factory=list)  # each with its statement's line
    deeper: Token | None = None  # the first `{` that stands further right than its `}`
    less: Token | None = None  # the first `}` that stands further right than its `{`
    headless: Token | None = None  # the `)` of what may be a function without its `{`

    def judge(self, found: Sequence[Token]) -> tuple[str, Token] | None:
        """The error, and the token to blame."""
        opened = 0  # the line of the `(` of the last `)`
        for at, token in enumerate(found):
            if token.kind == "name" and not self.open and self._begins_line(token):
                if self.headless is None and _is_head(found, at):
                    self.headless = found[at - 1]
            if token.kind != "operator" or token.text not in "()[]{}":
                continue
            if token.text in CLOSING:
                behind = at and found[at - 1].text == ")"
                self.open.append((token, opened if behind and opened else token.line))
                if token.text == "{" and len(self.open) == 1:
                    self.headless = None
                continue
            if not self.open:
                return self._closes_nothing(token)
            opener, opened = self.open.pop()
            if CLOSING[opener.text] != token.text:
                left_open = token.text == "}"  # a statement ends where its brackets do not
                return _unclosed(opener) if left_open else (f"unexpected '{token.text}'", token)
            if token.text == "}":
                self._compare(opener, opened, token)
        return _unclosed(self.deeper or self.open[0][0]) if self.open else None

    def _closes_nothing(self, token: Token) -> tuple[str, Token]:
        if token.text == "}" and self.less is not None:
            return "unexpected '}'", self.less
        if token.text == "}" and self.headless is not None:
            head = self.headless
            return "expected '{' behind this: a function's body", head
        return f"unexpected '{token.text}'", token

    def _compare(self, opener: Token, line: int, closer: Token) -> None:
        """Look at how a block's brackets are indented."""
        before = self.lines[closer.line - 1][: closer.column - 1]
        if opener.line == closer.line or before.strip("} \t"):
            return
        begin, end = self._indent(line), self._indent(closer.line)
        if begin > end and self.deeper is None:
            self.deeper = opener
        elif begin < end and self.less is None:
            self.less = closer

    def _indent(self, line: int) -> int:
        text = self.lines[line - 1].expandtabs(8)
        return len(text) - len(text.lstrip())

    def _begins_line(self, token: Token) -> bool:
        return not self.lines[token.line - 1][: token.column - 1].strip()


def _unclosed(token: Token) -> tuple[str, Token]:
    return f"unterminated '{token.text}'", token


def _is_head(found: Sequence[Token], at: int) -> bool:
    """True if `int main(void)` or the like stands before a token."""
    depth, index = 0, at - 1
    if index < 0 or found[index].text != ")":
        return False
    while index >= 0:
        depth += (found[index].text == ")") - (found[index].text == "(")
        index -= 1
        if not depth:
            break
    names = [t for t in found[max(index - 1, 0) : index + 1] if t.text not in CONTROL]
    return len(names) == 2 and names[1].kind == "name" and (
        names[0].kind == "name" or names[0].text == "*"
    )  # fmt: skip
