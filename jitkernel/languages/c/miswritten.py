"""What lines were perhaps meant to be that clang refuses: what beginners mix up, and what C++,
Python and shells have.  Start from `hint_of`; `python_line` finds what keeps a cell from being cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from jitkernel.ir.miswritten import rules, said
from jitkernel.languages.c.words import C23, STANDARD_HEADERS, STANDARD_NAMES
from jitkernel.lookalikes import advice
from jitkernel.regex import regex

#: clang's words for a name that it does not know.
UNKNOWN = r"(?:undeclared (?:identifier|(?:library )?function)|unknown type name) '"
NAMELESS = regex(rf"{UNKNOWN}(\w+)'")
_FOREIGN = regex(r"this is (?:C\+\+|Python|LLVM IR),|for the shell,|no compiler is")
_IR = "this is LLVM IR, and this cell is C: a cell of IR has `%%llvm` above it"
_CXX, _PYTHON = "this is C++, and cells are C", "this is Python, and cells are C"
_OWN_CXX = "; what has to be C++, compile with `g++ -c` and %link the object"
_NO_BOOL = "a truth value is `1` or `0`, or with `#include <stdbool.h>` `true` or `false`"
_TYPED = "a variable's type stands in front: `int x = ...;`"
#: Names that C does not have, and what it has.
_NAMES = {
    "cout cerr clog endl": f'{_CXX}: `printf("%d\\n", x);` with `#include <stdio.h>`',
    "cin": f'{_CXX}: `scanf("%d", &x);` with `#include <stdio.h>`',
    "using namespace std": f"{_CXX}, which has no namespaces: leave them out",
    "class template typename virtual public private try throw operator vector": _CXX + _OWN_CXX,
    "new": f"{_CXX}: `malloc(n * sizeof(int))` with `#include <stdlib.h>`",
    "delete": f"{_CXX}: `free(p);` with `#include <stdlib.h>`",
    "string String": 'C has no such type: text is `char s[] = "...";` or `const char *s`',
    "def": f"{_PYTHON}: a function is `int f(int x) {{ ... }}`",
    "lambda": f"{_PYTHON}, which has no functions in expressions: `int f(int x) {{ ... }}`",
    "import from": f"{_PYTHON}: `#include <stdio.h>` brings in a part of the library",
    "None": "C's word is `NULL`, of `#include <stddef.h>`",
    "null nil NIL Null": "C's word is `NULL`, of `#include <stddef.h>`",
    "True False": _NO_BOOL,
    "elif elseif elsif": "C writes `else if (...)`",
    "esle": "did you mean `else`?",
    "then": "no `then` stands between `if (...)` and its statement",
    "and or not": "C writes `&&`, `||` and `!`",
    "print println": 'C writes `printf("...\\n");`, with `#include <stdio.h>`',
    "input": 'C writes `scanf("%d", &x);`, with `#include <stdio.h>`',
    "len": "C has `strlen(s)` of <string.h>, and for an array `sizeof a / sizeof *a`",
    "gets": "C has it no more: `fgets(line, sizeof line, stdin);`",
    "let var val auto": _TYPED,
    "function fn func": "a function is `int f(int x) { ... }`",
    "mod": "C writes `%`",
    "define include ifdef ifndef undef pragma": r"write `#\1`",
    "help": "%help lists what there is, and `name?` tells of a name",
    "clear cls": "%clear clears the output of a cell, %reset empties the session",
    "gcc cc clang tcc make": "no compiler is needed: `%run x.c` runs a file, `%run main` the main "
    "of a cell",
    "ls cd pwd cat echo mkdir rm cp mv man python python3 pip git vim nano apt": (
        r"for the shell, write %%llvm and !\1 in the lines below"
    ),
}  # fmt: skip
_HINTS = {word: text for words, text in _NAMES.items() for word in words.split()}
#: Those of them that stand at the beginning of a line; elsewhere they are names as any other.
_AT_BEGIN = frozenset(
    "help clear cls gcc cc clang tcc make ls cd pwd cat echo mkdir rm cp mv man python python3 pip"
    " git vim nano apt def import from let var val function fn func define include ifdef ifndef"
    " undef pragma using class template typename virtual public private try throw delete".split()
)
DIRECTIVES = (
    "include", "define", "ifdef", "ifndef", "endif", "else", "elif", "undef", "pragma", "error",
)  # fmt: skip
_CXX_HEADERS = {
    "iostream": "stdio.h", "string": "string.h", "cmath": "math.h", "fstream": "stdio.h",
    "cstdio": "stdio.h", "cstdlib": "stdlib.h", "cstring": "string.h", "cassert": "assert.h",
}  # fmt: skip
_CXX_ALONE = frozenset("vector map set algorithm memory utility functional bits/stdc++.h".split())
_PYTHON_HEAD = regex(
    r"\s*(?:(?:if|elif|else|for|while|def|class|try|with)\b[^;{}?]*(:)\s*(?:#.*)?$"
    r"|def\s+\w+\s*\([^;{}]*\)\s*(?:->[^:;{}]*)?(:))"
)
_RANGE = regex(r"\s*for\s+(\w+)\s+in\s+range\(\s*(?:(\w+)\s*,\s*)?(\w+)\s*\)")
_HEAD = regex(r"(if|elif|while|for|switch)\b")
_SHELL = regex(r"\s*(!(\w+)[^\n]*)")  # a command line of IPython
_LINE_OF_IR = regex(
    r"\s*(?:(?:define|declare)\b[^(]*@"
    r"|(?:ret|load|store|call|br|add|sub|mul)\s+(?:nsw\s+)?(?:(?:i\d+|ptr|void|double|float|label)\b|@))"
)
_CALL_OF_IR = regex(r"@(\w+)\s*\(")
_FIRST_WORD = regex(r"\s*(alignas|static_assert|typeof_unqual)\b")
_SET = regex(r"(\w+)\s*=(?!=)\s*((?:[^;,()]|\((?:[^()]|\([^()]*\))*\))*)")


def is_foreign(hint: str) -> bool:
    """True if a hint says that what was written is no C at all: nothing else is worth saying."""
    return _FOREIGN.match(hint) is not None


def hint_of(
    message: str, lines: Sequence[str], line: int, column: int, is_macro: Callable[[str], bool]
) -> str:
    """A hint where clang complains so about a place of a cell, "" where nothing is known;
    `is_macro` tells of a word."""
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    rest = text[column - 1 :]
    if _LINE_OF_IR.match(text):
        return _IR
    if named := NAMELESS.search(message):
        return "" if is_macro(named[1]) else _of_name(named[1], lines, text, rest, message)
    found: str = said(_RULES, message, text, rest)
    return found or advice(rest[: next((i for i, c in enumerate(rest) if not c.isalnum()), 0) + 1])


def python_line(lines: Sequence[str]) -> tuple[int, int, str]:
    """The first line that begins a block as Python does, the column of its colon, both from 1, and
    what C writes; 0 for none."""
    for number, line in enumerate(lines, 1):
        if match := _PYTHON_HEAD.match(line):
            return number, match.end(match.lastindex or 0), _of_head(line)
    return 0, 0, ""


def _of_name(name: str, lines: Sequence[str], text: str, rest: str, message: str) -> str:
    """About a name that nobody declares."""
    shell = _SHELL.match("\n".join(lines))
    if shell is not None and name == shell[2]:
        return f"`!` is C's here; for the shell, write %%llvm and {shell[1]} in the line below"
    if name in STANDARD_NAMES or name in C23:
        return _of_header(name)
    if "did you mean" in message:
        return ""
    if re.match(r"f[\"']", rest):
        return f'{_PYTHON}: `printf("%d\\n", x);` with `#include <stdio.h>`'
    begins = not text[: len(text) - len(rest)].strip()
    if name in _HINTS and (begins or name not in _AT_BEGIN):
        return _HINTS[name].replace(r"\1", name)
    value = _SET.match(rest)
    if value is not None and "identifier" in message:
        return f"declare it first: `{_declared(name, value[2].strip())}`"
    if "function" in message and (near := get_close_matches(name, STANDARD_NAMES, 1, 0.8)):
        return f"did you mean `{near[0]}`, of `#include <{STANDARD_NAMES[near[0]]}>`?"
    return ""


def _declared(name: str, value: str) -> str:
    """A declaration of a variable with such a value."""
    if value.startswith('"'):
        return f"char {name}[] = {value};"
    if value.startswith("'"):
        return f"char {name} = {value};"
    decimal = re.fullmatch(r"-?\d*\.\d*(?:[eE][-+]?\d+)?", value)
    return f"{'double' if decimal else 'int'} {name} = {value};"


def _of_header(name: str) -> str:
    """A hint at the header that has a name of C's library, or at the C that has a word."""
    header = STANDARD_NAMES.get(name) or C23[name]
    newer = "C23 has it: Compiler.clang_flags=-std=gnu23" if name in C23 else ""
    write = f"write `#include <{header}>`" if header else ""
    return "; ".join(filter(None, (write, newer)))


def _of_head(line: str) -> str:
    """About `if x > 3:`."""
    if counted := _RANGE.match(line):
        name, first, stop = counted[1], counted[2] or "0", counted[3]
        return f"{_PYTHON}: `for (int {name} = {first}; {name} < {stop}; {name}++) {{ ... }}`"
    word = line.split()[0].rstrip(":")
    if word in ("if", "while"):
        return f"{_PYTHON}: `{word} (...) {{ ... }}`"
    return f"{_PYTHON}: `else if (...) {{ ... }}`" if word == "elif" else (
        f"{_PYTHON}: a function is `int f(int x) {{ ... }}`" if word == "def"
        else f"{_PYTHON}: a block is {{ ... }}"
    )  # fmt: skip


def _behind_word(match: re.Match[str], text: str, rest: str) -> str:
    """About a condition without its parentheses."""
    if _PYTHON_HEAD.match(text):
        return _of_head(text)
    word = _HEAD.search(text[: len(text) - len(rest)])
    forms = {"for": "for (int i = 0; i < n; i++)"}
    return f"`{forms.get(match[1], f'{match[1]} (...)')}`" if word else ""


def _expected(match: re.Match[str], text: str, rest: str) -> str:
    """About a word or an operator that stands where C expects something else."""
    before = text[: len(text) - len(rest)].rstrip()
    word = re.match(r"\w+", rest)
    if word and word[0] == "else":
        return (
            "no `if` stands right before this `else`: two statements and more need { } around them"
        )
    if word and word[0] in ("then", "and", "or", "not", "mod", "elif"):
        return _HINTS[word[0]]
    if call := _CALL_OF_IR.match(rest):
        return f"a call in C has no @: `{call[1]}(...)`"
    if rest[:1] == "&" and re.search(r"\w\Z", before):
        return f"{_CXX}, which has no references: a pointer is `int *p = &x;`"
    if rest[:1] == "[" and before.endswith("="):
        return f"{_PYTHON}: an array is `int a[] = {{1, 2, 3}};`"
    if rest[:1] == "{" and re.search(r"[^=!<>]=\Z", before):
        return (
            "braces give a value where a variable is defined; later `x = (struct s){...};`, and of "
            "an array `memcpy(a, (int[]){...}, sizeof a);` of <string.h>"
        )
    if rest[:1] in ("<", ">") and before.endswith("="):
        return f"did you mean `{rest[0]}=`?"
    if first := _FIRST_WORD.match(text):
        return _of_header(first[1])
    return _of_head(text) if _PYTHON_HEAD.match(text) else ""


def _of_file(match: re.Match[str], text: str, rest: str) -> str:
    """About a header that is not there."""
    name = match[1]
    if name in _CXX_HEADERS:
        return f"{_CXX}: `#include <{_CXX_HEADERS[name]}>`{_OWN_CXX}"
    if name in _CXX_ALONE:
        return _CXX + _OWN_CXX
    near = get_close_matches(name, STANDARD_HEADERS, 1, 0.8)
    return f"did you mean `#include <{near[0]}>`?" if near else ""


def _of_directive(match: re.Match[str], text: str, rest: str) -> str:
    """About what begins with # and is no directive."""
    word = re.match(r"\w*", rest)
    near = get_close_matches(word[0] if word else "", DIRECTIVES, 1, 0.6)
    return f"did you mean `#{near[0]}`?" if near else "comments begin with //"


# What clang says, and what to write: a hint, or a function that gives one for the message, the line
# and the text from the place on.
_RULES = rules(
    (r"unexpected '}'", "a `{` is missing above it, or it is one too many"),
    (r"expected '\(' after '(\w+)'", _behind_word),
    (r"expected ", _expected),
    (r"'([^']*)' file not found", _of_file),
    (r"invalid preprocessing directive", _of_directive),
    (r"indirection requires pointer operand \('(?:int|double|float|long)'",
     lambda m, text, rest: f"{_PYTHON}: a power is `pow(x, y)` of <math.h>"
     * text[: len(text) - len(rest)].endswith("*")),
    (r"invalid operands to binary expression \('(?:const )?char(?:\[| \*)",
     lambda m, text, rest: "text is put together by `strcat(to, from);` of <string.h>, or by "
     "`snprintf`" * (rest[:1] == "+")),
    (r"incompatible integer to pointer conversion .*'(?:const )?char \*'",
     lambda m, text, rest: "text stands between \", one character between '"
     * bool(re.search(r"'[^'\\]{2,}'", rest))),
    (r"array type 'char\[", "text is copied by `strcpy(to, from);` of <string.h>"),
    (r"member reference base type '.*\]' is not",
     "an array has no members, but `sizeof a / sizeof *a` elements"),
    (
        r"invalid operands to binary expression \('(?:double|float)",
        lambda m, text, rest: "`fmod(x, y)` of <math.h> is that remainder" * ("%" in rest[:2]),
    ),
    (
        r"too (?:few|many) arguments to function call",
        lambda m, text, rest: "`%run main a b` calls it as a system does, with a and b as "
        "arguments" if re.match(r"\s*main\s*\(", text) else "",
    ),
    begin=r"\A",
)  # fmt: skip
