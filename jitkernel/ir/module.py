"""A module's text as entities, each with its place: functions, variables, aliases, types, groups of
attributes, comdats, metadata, assembly and what a module says of itself.

Lossless: what stands between entities is blanks and comments, and their texts are the module's own.
Only heads are looked for, so that megabytes take milliseconds; where an entity ends and what is in
it is read when it is asked for.  Start from `entities`, `functions` and `global_values`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import islice

from jitkernel.ir.names import COMMENT, NAME, SKIP, SPACE, decode_name, symbol_name
from jitkernel.ir.text import after_space, closing, line_end, replaced, split_at_commas, type_at
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

# A keyword's first letter stands before what may not precede it, so that the search can skip to it.
_WORD = r"(?<![-\w$.@%!]{0})"
# The heads of entities.  The group that ends last is their name's or their kind's.
_HEADS = {
    "function": rf"d{_WORD.format('d')}(?P<keyword>e(?:fine|clare))(?![-\w$.:])"
    rf'(?P<words>(?:[^@";=/]|/(?!\*)|{SKIP})*)(?:@(?P<function>{NAME}){SPACE}(?=\())?',
    "value": rf"@(?P<value>{NAME}){SPACE}={SPACE}"
    rf"(?P<before>(?:[a-z_]+(?:\([^()\n]*\))?(?:\s|{COMMENT})+)*?)"
    r"(?P<kind>global|constant|alias|ifunc)(?![-\w$.])",
    "type": rf"%(?P<type>{NAME}){SPACE}={SPACE}type\b{SPACE}",
    "attributes": rf"a{_WORD.format('a')}ttributes{SPACE}#(?P<attributes>\d+){SPACE}={SPACE}",
    "comdat": rf"\$(?P<comdat>{NAME}){SPACE}={SPACE}comdat\b{SPACE}",
    "metadata": rf"!(?P<metadata>[-\w$.\\]+){SPACE}={SPACE}",
    "target": rf"t{_WORD.format('t')}arget{SPACE}(?P<target>triple|datalayout){SPACE}={SPACE}"
    r'(?="[^"]*")',
    "asm": rf"m{_WORD.format('m')}odule{SPACE}(?P<asm>asm){SPACE}",
    "other": rf"s{_WORD.format('s')}(?P<other>ource_filename){SPACE}={SPACE}"
    rf"|u{_WORD.format('u')}(?P<order>selistorder(?:_bb)?)\b{SPACE}"
    rf"|\^(?P<summary>\d+){SPACE}={SPACE}",
}
_BODY_BEGINS = regex(rf"{SKIP}|\b(?P<data>prefix|prologue)\b{SPACE}|[(\[{{<]")
_BODY = regex(SKIP + r'|[{}]|"|/\*')
_LAST = regex(rf"%({NAME})\s*\Z")
_LINKAGE = regex(
    r"\b(?:private|internal|external|weak|weak_odr|linkonce|linkonce_odr|available_externally|"
    r"extern_weak|common|appending)\b"
)
_DEFINING = regex(
    r"\b(?:available_externally|dso_local|dso_preemptable|weak|hidden|protected|linkonce_odr|"
    r"weak_odr) "
    r'| comdat(?:\([^)]*\))?| section "[^"]*"| align \d+(?= |$)(?!.*\))|(?: !\w+ !\d+)+\s*$'
)
_BEHIND = regex(r" (?:personality|prefix|prologue|gc) .*", re.S)  # only of definitions
_TYPE = regex(r"t(?<![-\w$.@%]t)ype(?![-\w$.:])")
_SWITCH = regex(r"\bswitch\b[^\[\]]*\[[^\]]*\]")
_SAID_ARRAY = regex(rf"^@({NAME}) = .*; (\[\d+ x [^;\n]*\])$", re.M)
# A name that assembly defines: a label, or what a directive gives a value or bytes.
_LABEL = regex(r'(?:^|[;\s])"?([\w.$]+)"?\s*[:=]|\.(?:set|equ|equiv|l?comm)\s+"?([\w.$]+)')
_PLACED = regex(r"\((?:localdynamic|initialexec|localexec)\)|\b(?:dso_local|hidden|protected)\b")

#: What only a definition has: labels, and other names.
_OF_A_DEFINITION = regex(
    rf"\bblockaddress\s*\(\s*@({NAME})|^@{NAME}\s*=[^\n]*\b(?:alias|ifunc)\b[^\n]*@({NAME})",
    re.MULTILINE,
)


class Entity(NamedTuple):
    """One entity of a text.

    `kind` is `define`, `declare`, `global`, `constant`, `alias`, `ifunc`, or a key of the table of
    heads; `spelled` the name as it is written, without its sign: a target's is `triple` or
    `datalayout`.  `words` stand between a function's keyword and its name (linkage, convention,
    result), or between a variable's `=` and its kind, and begin at `words_at`.  `start` is the
    offset of the head, `value` that of what follows it: a function's `(`, else what it is; `stop`
    that behind the entity, where its body has been read over, else -1.
    """

    source: str
    kind: str
    spelled: str
    words: str
    start: int
    words_at: int
    value: int
    stop: int = -1

    @property
    def name(self) -> str:
        return symbol_name(self.spelled) if self.spelled[:1] == '"' else self.spelled

    @property
    def linkage(self) -> str:
        """The linkage that is written, "" where none is."""
        match = _LINKAGE.search(self.words)
        return match[0] if match else ""

    @property
    def unplaced_words(self) -> str:
        """A thread-local variable's words with blanks for what would let code count on where it is:
        its model, and that no other module may define it."""
        return _PLACED.sub(lambda m: " " * len(m[0]), self.words)

    @property
    def is_declaration(self) -> bool:
        """True if it defines nothing: neither does a copy for the optimiser alone."""
        if self.kind == "define":
            return "available_externally" in self.words
        return self.kind == "declare" or self.linkage in ("external", "extern_weak")

    @property
    def is_local(self) -> bool:
        """True if no other module can see it."""
        return self.linkage in ("private", "internal")

    @property
    def parameters(self) -> list[str]:
        """The texts of a function's parameters."""
        source, at = self.source, self.value
        return split_at_commas(source[at + 1 : closing(source, at) - 1])

    @property
    def parameter_names(self) -> list[str]:
        """The names of a function's parameters as they are written, "" where one has none."""
        return [match[1] if (match := _LAST.search(part)) else "" for part in self.parameters]

    def body(self) -> tuple[int, int]:
        """The offsets of the body's `{` and behind its `}`; (-1, -1) where there is no whole one.

        The constants behind `prefix` and `prologue` may have braces too.
        """
        source = self.source
        at = closing(source, self.value)
        while at >= 0 and (match := _BODY_BEGINS.search(source, at)):
            if match["data"]:
                at = match.end() + len(type_at(source, match.end()))
                at = after_space(source, at)
                if source[at : at + 1] in ("{", "[", "<"):
                    at = closing(source, at)
            elif match[0] == "{":
                return match.start(), body_end(source, match.start())
            else:
                at = closing(source, match.start()) if match[0] in "([<" else match.end()
        return -1, -1

    @property
    def end(self) -> int:
        """The offset behind the entity: a body's `}`, or the end of its line."""
        if self.stop >= 0:
            return self.stop
        if self.kind == "define" and (end := self.body()[1]) >= 0:
            return end
        return line_end(self.source, self.value)

    @property
    def text(self) -> str:
        return self.source[self.start : self.end]

    @property
    def declaration(self) -> str:
        """A declaration of what it defines, as LLVM wants it where another module does."""
        if self.kind in ("define", "declare"):
            head = self.source[self.start : self.body()[0]] if self.kind == "define" else self.text
            return _BEHIND.sub("", undefining(head)).replace("define ", "declare ", 1)
        if self.kind in ("alias", "ifunc"):
            type = alias_type(split_at_commas(self.rest)[0])
            if type.endswith(")"):
                result, _, parameters = type.partition(" (")
                return f"declare {result} @{self.spelled}({parameters}"
            return f"@{self.spelled} = external global {type}"
        type = type_at(self.rest.strip())
        words = "thread_local " if "thread_local" in self.words else ""
        words += "".join(f"{w} " for w in self.words.split() if w.startswith("addrspace("))
        return f"@{self.spelled} = external {words}{self.kind} {type}"

    @property
    def string(self) -> str:
        """The text between the quotes that a target begins with."""
        return self.source[self.value + 1 : self.source.index('"', self.value + 1)]

    @property
    def rest(self) -> str:
        """The text behind the head: a variable's type and what follows it."""
        return self.source[self.value : self.end]


def body_end(text: str, brace: int) -> int:
    """The offset behind the `}` of the body that begins at `brace`; -1 where there is none."""
    # Most bodies have no other braces, and end with the first line that begins with one.
    end = text.find("\n}", brace) + 2
    if end > 1 and text.find('"', brace, end) < 0 and text.find("/*", brace, end) < 0:
        if text.find("}", brace) == end - 1 and text.find("{", brace + 1, end) < 0:
            return end
    depth = 0
    for match in _BODY.finditer(text, brace):
        token = match[0]
        if token in ("{", "}"):
            depth += 1 if token == "{" else -1
            if not depth:
                return match.end()
        elif token in ('"', "/*"):  # it is never closed
            break
    return -1


@cache
def _heads(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return regex("|".join([SKIP, *(_HEADS[kind] for kind in kinds or _HEADS)]))


def entities(text: str, *kinds: str) -> Iterator[Entity]:
    """The entities of a text, in order; of some kinds only: `function`, `value`, `type`, ...

    Of more kinds than one, none is looked for in bodies, as long as those are whole.
    """
    search, at, skips = _heads(kinds).search, 0, len(kinds) != 1
    while match := search(text, at):
        at, last = match.end(), match.lastgroup
        if last == "function":
            place = match.start("words")
            found = Entity(
                text, "d" + match["keyword"], match["function"], match["words"],
                match.start(), place, at,
            )  # fmt: skip
            if skips and found.kind == "define":
                end = found.body()[1]
                at, skips = max(at, end), end >= 0
                found = found._replace(stop=end)
        elif last == "kind":
            place = match.start("before")
            found = Entity(
                text, match["kind"], match["value"], match["before"], match.start(), place, at
            )
        elif last and last not in ("words", "keyword"):
            kind = last if last in _HEADS else "other"
            found = Entity(text, kind, match[last], "", match.start(), at, at)
        else:
            continue
        yield found


def undefining(head: str) -> str:
    """A function's head without what only a definition says: linkage, comdat, section, alignment,
    and metadata at its end."""
    return _DEFINING.sub("", head).rstrip()


def alias_type(text: str) -> str:
    """An alias's value type, spaced as LLVM prints it."""
    first = type_at(text)
    rest = text[len(first) :].strip()
    if not rest.startswith("("):
        return first
    inner = ", ".join(" ".join(part.split()) for part in split_at_commas(rest[1:-1]))
    return f"{first} ({inner})"


def of_others(text: str, names: Collection[str]) -> str:
    """A module's text whose own code uses these symbols as others define them, though it defines
    them too, for the linker alone: LLVM's name of a definition, `@"\\01f"`, is another one than
    that of what is used, `@f`, and their symbol is the same (LLVM Language Reference,
    Identifiers)."""
    edits, declared, own = [], [], dict[str, str]()
    for found in entities(text, "function", "value"):
        if found.name not in names or found.is_local or found.is_declaration:
            continue
        if found.spelled.startswith('"\\01'):
            continue
        at = text.rindex("@", 0, found.value) if found.kind == "define" else found.start
        verbatim = '"\\01' + found.spelled.strip('"') + '"'
        edits.append((at + 1, at + 1 + len(found.spelled), verbatim))
        declared.append(found.declaration)
        own[found.spelled] = verbatim
    for match in _OF_A_DEFINITION.finditer(text) if own else ():
        if (name := match[1] or match[2]) in own:
            edits.append((*match.span(1 if match[1] else 2), own[name]))
    return "\n".join([replaced(text, sorted(edits)), *declared])


def said_arrays(source: str) -> dict[str, str]:
    """The types of variables that their language says to be arrays, in a comment, by name: see
    languages/c/module.py."""
    found = _SAID_ARRAY.findall(source) if "; [" in source else ()
    return {symbol_name(name): type for name, type in found}


def may_define_types(source: str) -> bool:
    """True unless no word of a text is `type`; parts of names are none."""
    return "type" in source and _TYPE.search(source) is not None


def has_switch(source: str, cases: int) -> bool:
    """True if a `switch` of a text has more cases than a number."""
    return source.count(", label %") > cases and any(
        found[0].count(", label %") > cases for found in _SWITCH.finditer(source)
    )


def functions(text: str, keyword: str = "") -> Iterator[Entity]:
    """The functions of a text, in order; of one `keyword` (`define`, `declare`) only."""
    return (f for f in entities(text, "function") if keyword in ("", f.kind))


def without_targets(text: str) -> tuple[str, list[Entity]]:
    """The text with blanks for its `target` statements, and those."""
    found = [*entities(text, "target")]
    edits = []
    for target in found:
        stop = target.value + len(target.string) + 2
        edits.append((target.start, stop, " " * (stop - target.start)))
    return replaced(text, edits), found


def global_values(text: str) -> Iterator[Entity]:
    """The variables, aliases and ifuncs of a text, in order, those without a name too."""
    return entities(text, "value")


def symbols_of(statement: str) -> Iterator[Entity]:
    """The symbols that one statement defines or declares: a function, or variables.

    Globals without a name (`@0`) are their module's own and no symbols.
    """
    if statement.startswith(("define", "declare", "@")):
        found = entities(statement, "value" if statement.startswith("@") else "function")
        most = 1 if statement.startswith("define") else None  # a body is not looked into
        for each in islice(found, most):
            if not each.spelled.isdigit():
                yield each


def labels_in(assembly: Iterable[str]) -> set[str]:
    """The names that lines of `module asm` define: labels, and what directives give a value or
    bytes."""
    texts = (decode_name(line[line.find('"') :]) for line in assembly)
    return {name for text in texts for found in _LABEL.findall(text) for name in found if name}
