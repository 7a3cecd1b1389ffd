"""The module that is compiled for one that is to be debugged.  Worker only.

Each value has a home (`homes`), each instruction its line; functions are not optimised, inlined or
without a frame.  Start from `debugged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitkernel.compiler import binding
from jitkernel.compiler.binding import lib
from jitkernel.compiler.homes import Body, Value, Values
from jitkernel.compiler.looped import annotated
from jitkernel.ir import shadowing
from jitkernel.ir.attributes import members
from jitkernel.ir.debug_info import split_location, with_locations
from jitkernel.ir.instructions import blocks
from jitkernel.ir.marks import marked_lines
from jitkernel.ir.module import Entity, entities, functions
from jitkernel.ir.names import quote_name
from jitkernel.ir.text import after_space, closing, replaced

_LIFETIME = " @llvm.lifetime."
_FRAME = '"frame-pointer"="all"'
_NO_TAIL_CALLS = '"disable-tail-calls"="true"'
_NOT_REALIGNED = '"no-realign-stack"'
_UNLIKE_OPTNONE = frozenset(("alwaysinline", "minsize", "optsize", "optdebug"))


def debugged(text: str, first_line: int = 1, marked: bool = False, followed: bool = False) -> str:
    """The module that is compiled for one that is to be debugged: each value has a home, and each
    instruction its line, counted from `first_line`, or the one that its language has `marked`.

    A module with debug information of its own gets frames that can be `followed`, and no more; so
    does one that is to be optimised, with lines.  LLVM's values have no names then: where the
    optimiser said that they are (`#dbg_value`), they were not in 3 of 24 random programs.
    "" where no lines can be told.  Raises LLVMError where the text is no module.
    """
    own = any(found.spelled == "llvm.dbg.cu" for found in entities(text, "metadata"))
    if not own:
        line_of = marked_lines(text, first_line) if marked else None
        text = with_locations(text, first_line, line_of, "FullDebug")
    if not text:
        return ""
    with binding.parsed(text.encode("utf-8", "surrogatepass")) as module:
        binding.verify(module)
        prefix = _unused(text)
        values = {} if own or followed else dict(_named(module, prefix))
        printed = binding.print_module(module)
        printed = shadowing.marked(printed) if own and followed else printed
        return _Module(printed, values, prefix, followed).text(own)


def _unused(text: str) -> str:
    """A prefix that no name of a type in a text has."""
    prefix = "jk."
    while f"%{prefix}" in text or f'%"{prefix}' in text:
        prefix += "_."
    return prefix


def _named(module: int, prefix: str) -> Iterator[tuple[str, Value]]:
    """Give values and blocks names that no type has, and say which values those are."""
    types: dict[int, str] = {}
    count = 0
    for function in binding.functions(module):
        unnamed = 0
        for value in [] if lib.IsDeclaration(function) else _walked(function):
            of_type = lib.TypeOf(value)
            if of_type not in types:
                types[of_type] = binding.print_type(of_type).partition(" = type ")[0]
            if types[of_type] == "void":
                continue
            name = lib.GetValueName(value).decode("utf-8", "surrogateescape")
            shown = quote_name(name) if name else str(unnamed)
            unnamed += not name
            count += 1
            lib.SetValueName(value, f"{prefix}{count}".encode())
            yield f"{prefix}{count}", Value(f"%{shown}", types[of_type], of_type)


def _walked(function: int) -> Iterator[int]:
    """A function's arguments, blocks and instructions, as LLVM numbers those without names."""
    yield from binding.arguments(function)
    for block in binding.blocks(function):
        yield block
        yield from binding.instructions(block)


class _Module:
    """A module as LLVM prints it, on its way; the names of its `values` begin with `prefix`."""

    def __init__(self, text: str, values: Mapping[str, Value], prefix: str, followed: bool):
        self._text, self._followed = text, followed
        layout = next((t.string for t in entities(text, "target") if "d" in t.spelled), "")
        self._values = Values(text, values, prefix, layout)
        self._metadata = self._values.metadata
        self._groups = {found.spelled: found for found in entities(text, "attributes")}
        self._made: dict[tuple[str, ...], int] = {}
        self._first = 1 + max(map(int, self._groups), default=-1)

    def text(self, own: bool) -> str:
        """The module for a debugger; its `own` debug information stays all there is."""
        edits: list[tuple[int, int, str]] = []
        for function in functions(self._text, "define"):
            edits += self._function(function, own)
        if own and self._followed:
            edits += self._annotations()
        if not (own or self._followed):
            edits += self._never_inlined()
        made = [
            f"attributes #{number} = {{ {' '.join(words)} }}\n"
            for words, number in self._made.items()
        ]
        return "".join([replaced(self._text, sorted(edits)), "\n", *made, self._metadata.text()])

    def _annotations(self) -> Iterator[tuple[int, int, str]]:
        """Let it be seen which variables change in loops."""
        known = self._metadata.known
        changed = {
            node
            for function in functions(self._text, "define") if not function.is_declaration
            for node in annotated(function, known)
        }  # fmt: skip
        for found in entities(self._text, "metadata") if changed else ():
            if found.spelled in changed and "annotations:" not in known[found.spelled]:
                note = self._metadata.once('!{!"changes in a loop", i1 true}')
                notes = self._metadata.once(f"!{{{note}}}")
                at = closing(self._text, self._text.index("(", found.value)) - 1
                yield at, at, f", annotations: {notes}"

    def _function(self, function: Entity, own: bool) -> list[tuple[int, int, str]]:
        text = self._text
        brace, end = function.body()
        start, stop = _group(function)
        words = members(self._groups[text[start + 1 : stop]].rest) if stop > start else []
        if "naked" in words or function.is_declaration:
            return []
        if self._followed:  # there is a table of its frame, and nothing changes
            words = [word for word in words if word.partition("(")[0] != "uwtable"]
            # Arguments of a call that has become a jump are not told.
            calls = [_NO_TAIL_CALLS] if own else []
            return [self._attributed(function, [*words, "uwtable", *calls])]
        words = [word for word in words if not word.startswith(_FRAME.partition("=")[0])]
        edits = []
        located = split_location(text[stop:brace])[1]  # LLVM drops what it finds to be at odds
        if not own and located and "presplitcoroutine" not in words:
            words = [word for word in words if word not in _UNLIKE_OPTNONE]
            body = Body(self._values, function, blocks(text, brace + 1, end - 1))
            words += ["noinline", "optnone"]
            if body.is_aligned:
                words.append(_NOT_REALIGNED)
            edits.append((brace + 1, end - 1, body.text()))
        edits += self._lifetimes(brace + 1, end - 1) if own else ()
        return [self._attributed(function, [*words, _FRAME]), *edits]

    def _lifetimes(self, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
        """Leave out what says where variables begin and end: with it, LLVM makes no code of a jump
        that is all there is at a line, such as a loop's `}`."""
        text = self._text
        while (at := text.find(_LIFETIME, start, stop)) >= 0:
            start = text.index("\n", at)
            yield text.rindex("\n", 0, at), start, ""

    def _attributed(self, function: Entity, words: list[str]) -> tuple[int, int, str]:
        """Let a function have these attributes, and no others of its group."""
        start, stop = _group(function)
        group = tuple(dict.fromkeys(words))
        number = self._made.setdefault(group, self._first + len(self._made))
        return start, stop, f"{' ' * (start == stop)}#{number}"

    def _never_inlined(self) -> Iterator[tuple[int, int, str]]:
        """Calls may ask for what functions do: to be inlined."""
        for found in self._groups.values():
            words = members(found.rest)
            if "alwaysinline" in words:
                kept = ["noinline" if word == "alwaysinline" else word for word in words]
                yield found.value, found.end, f"{{ {' '.join(dict.fromkeys(kept))} }}"


def _group(function: Entity) -> tuple[int, int]:
    """The place where a function's head names the group of its attributes, or would."""
    text, at = function.source, closing(function.source, function.value)
    start = after_space(text, at)
    for word in ("local_unnamed_addr", "unnamed_addr"):
        if text.startswith(word, start):
            at = start + len(word)
            start = after_space(text, at)
            break
    if text[start] != "#":
        return at, at
    stop = start + 1
    while text[stop].isdigit():
        stop += 1
    return start, stop
