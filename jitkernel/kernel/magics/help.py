"""Magics that help: what there is, in groups, and the words of the field (`explained`)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.parsing import help_view, usage
from jitkernel.kernel.magics.registry import Argument, Magic, magic
from jitkernel.views.view import View, join, listing, paragraph, table

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

CELLS = {
    "llvm": """\
define i32 @sq(i32 %x) { ... }   define a function; running the cell again replaces it
@sq(7)                           call it and show the result
%y = add i32 40, 2               bare instructions run once; the last value is shown
@n = i64 5                       make a global, or store into one
@n                               show it; @n? inspects, @n?? adds IR and assembly
!command                         run a shell command""",
    "c": """\
int sq(int x) { return x * x; }  define a function; running the cell again replaces it
sq(7)                            call it and show the result: the last expression of a cell
int n = 5;                       make a variable, which keeps its value
for (...) { ... }                statements run once
#include <stdio.h>               holds in later cells, too
%run main a b                    call the main of a whole program, with arguments
%run program.c, %lib -lz         run a file; load a library
name?, name??                    inspect; with IR and assembly""",
}

_REST = "The rest"
_GROUPS = {
    "Every day": "cells symbols who asm ir time timeit undo evict reset run history help",
    "What became of the code": "explain cfg passes remarks inline compare mir object callgraph"
    " timeline stack threads",
    "Data of the program": "plot table draw layout watch",
    "The debugger": "break breaks debug",
    "How a cell is compiled": "llvm c kaleidoscope opt pass analysis language",
    "The session": "redo deps gc save export restore reproduce",
    "Memory": "memory arena budget keep hibernate context",
    "Libraries, files, folders": "lib load link writefile cd pwd env",
    "Lessons": "predict answer check progress exercise",
    _REST: "config clear lsmagic quickref",
}


#: Words of the field that displays and lessons use, in a sentence or two.
WORDS = {
    "alias": "Another pointer to the same memory. Alias analysis asks of two accesses whether they "
    "may meet: restrict, types and checks at run time answer it.",
    "alloca": "An instruction that makes room for a local variable on the stack and gives its "
    "address. Passes turn most of them into values in registers (sroa, mem2reg).",
    "arena": "The memory that all cells share: zones for code, constants and variables.",
    "back edge": "A jump to a block that was passed on every way here: it closes a loop. %cfg "
    "marks it (back).",
    "basic block": "Instructions that always run one after the other: a label, no jump until the "
    "last one.",
    "boolean": "A value that is true or false: i1 in IR. In memory it takes a byte.",
    "canonical entry": "A few bytes of code whose address stands for a function and never changes; "
    "they jump to its present definition.",
    "dominate": "A block dominates another one if every way there leads through it. A value may "
    "only be used where its definition dominates.",
    "extent": "A piece of a zone that one cell has, in units of 16 bytes: %arena ZONE PART.",
    "fault": "What ends a cell against its will: a bad address, a division by zero, a trap.",
    "global": "A variable with one fixed place in memory: @name = global i32 5.",
    "inline cache": "A comparison in the code of a site, with the shape or class that was met "
    "there, in place of a look-up.",
    "intrinsic": "A function that LLVM itself knows and replaces by instructions: @llvm.ctpop.i32.",
    "iteration": "One run of a loop's body.",
    "little-endian": "The byte of least value comes first in memory: i32 1 is 01 00 00 00.",
    "linkage": "Who may see a name: external (all cells), internal and private (its own cell).",
    "module": "What LLVM compiles at once; here, one cell.",
    "object": "The file a module becomes: machine code, data, and a list of places where addresses "
    "are to be filled in. %object shows it.",
    "object cache": "Objects of cells that were compiled before, on disk: an equal cell needs no "
    "compiler. %%llvm --fresh compiles anew.",
    "opaque pointer": "A pointer does not say what it points to: there is only ptr; the load or "
    "store has the type.",
    "packed": "Of an instruction: it works on all elements of a vector register at once. %compare "
    "counts them.",
    "pass": "One step of the optimiser, which changes the IR: instcombine, sroa. %passes shows "
    "what each did.",
    "phi": "The value that depends on the block that one came from: phi i32 [ 1, %a ], [ 2, %b ].",
    "pipeline": "The passes that run, in order. -O2 is one of LLVM's; %opt chooses, %passes shows.",
    "poison": "The result of what is undefined: whatever uses it may become anything.",
    "predecessor": "A block's predecessors are the blocks that jump to it: 'comes from' in %cfg.",
    "register": "One of the processor's few places for values: rax, rdi, xmm0.",
    "relocation": "A place in code or data where the linker fills in a symbol's address.",
    "signature": "A function's type with all that calling it depends on: i32 (i32, ptr).",
    "spill": "A value that is put on the stack since no register is free.",
    "ssa": "Static single assignment: each %name gets its value at one place only.",
    "stub": "A few bytes of code in place of a function: they jump to it, raise an error where "
    "it is missing, or bring its code back into memory.",
    "successor": "A block's successors are the blocks that it can jump to: 'goes to' in %cfg.",
    "symbol": "A name that other cells can use: @name, a function or a global.",
    "tail call": "A call whose result is returned at once: it can become a jump, and then "
    "takes no stack.",
    "target": "The machine that code is made for: processor, system. %asm --target aarch64 shows "
    "another one's.",
    "terminator": "The last instruction of a block: ret, br, switch, unreachable.",
    "thunk": "A piece of code that passes arguments on: with one for each way in which they are "
    "passed, any function can be called from a call line.",
    "type": "What a value is: i32 (an integer of 32 bits), double, ptr, [4 x i8], { i32, ptr }.",
    "undef": "A value that may be anything, each time it is looked at.",
    "undefined behaviour": "What the language gives no meaning: a division by zero, a load through "
    "null. LLVM takes it that it never happens.",
    "unwind table": "A list that says, for each address of code, how to find the caller's frame: "
    "exceptions and backtraces need it (.eh_frame).",
    "vectorise": "Do several steps of a loop at once, in registers of several values.",
    "volatile": "A load or store that has to happen as it is written: no pass touches it.",
    "zone": "A part of the arena whose pages allow the same: text is executed, rodata and unwind "
    "are read, data is written.",
}


def grouped(magics: Iterable[Magic]) -> list[tuple[str, list[Magic]]]:
    """Every magic once: titles, each with its magics; those that no group names are the rest."""
    left = {magic.name: magic for magic in magics}
    found = [
        (title, [left.pop(name) for name in names.split() if name in left])
        for title, names in _GROUPS.items()
    ]
    found[-1][1].extend(left.values())
    return [(title, members) for title, members in found if members]


@magic("help", Argument("topic", "a magic, a name, a word", "rest", completes="magic"))
def help(context: Frontend, arguments: Any) -> None:
    """List what there is, or help on one magic, a name, or a word such as predecessor."""
    topic = arguments.topic
    if topic:
        magic = context.magics.get(topic.lstrip("%"))
        view = help_view(context, magic) if magic else context.look_up(topic)
        if view is None and (words := explained(topic)):
            view = _wrapped(words)
        if view is None:
            raise UsageError(f"no help for {topic}")
        context.display(view)
        return
    tables = [
        table(title, ("magic", "what it does", "how"), [_row(m) for m in members])
        for title, members in grouped(context.magics)
    ]
    glossary = _wrapped(f"%help WORD says what a word means: {', '.join(WORDS)}.")
    context.display(join([listing("Cells", _cells(context)), *tables, glossary]))


def _cells(context: Frontend) -> str:
    """The forms that a cell may have, in the notebook's language."""
    return CELLS["c" if context.setting("JITKernel.default_language") == "c" else "llvm"]


def explained(word: str) -> str:
    """The meaning of a word; "" for one that is not here.  Plurals and capitals count as it."""
    plain = " ".join(word.lower().replace("-", " ").split())
    known = {name.replace("-", " "): name for name in WORDS}
    for form in (plain, plain.removesuffix("s"), plain.removesuffix("es")):
        if form in known:
            return f"{known[form]}: {WORDS[known[form]]}"
    import difflib  # not needed to start

    near = difflib.get_close_matches(plain, known, 1, 0.85)
    return f"{known[near[0]]}: {WORDS[known[near[0]]]}" if near else ""


@magic("lsmagic")
def lsmagic(context: Frontend, arguments: Any) -> None:
    """The names of all magics."""
    magics = [m for _, members in grouped(context.magics) for m in members]
    line = "  ".join("%" + m.name for m in magics if m.form != "cell")
    cell = "  ".join("%%" + m.name for m in magics if m.form != "line")
    context.print(f"{line}\n{cell}\n%name? helps.")


@magic("quickref")
def quickref(context: Frontend, arguments: Any) -> None:
    """One page of everything."""
    lines = [_cells(context), ""]
    for title, members in grouped(context.magics):
        lines += [title, ""]
        lines += [line for member in members for line in _brief(member)]
        lines.append("")
    context.page(listing("jitkernel, in short", "\n".join(lines)))


def _brief(magic: Magic) -> list[str]:
    """The lines of a magic: how it is called, and in the next column, or below, what it does."""
    column = 34
    how = usage(magic).removeprefix("usage: ").replace("\n       ", "\n  ").splitlines()
    what = textwrap.wrap(_first_sentence(magic.help), 100 - column)
    if len(how) == 1 and len(how[0]) < column - 1:
        how = [f"{how[0]:<{column}}{what.pop(0)}"]
    return [*how, *(" " * column + line for line in what)]


def _wrapped(text: str) -> View:
    return View(textwrap.fill(text, 100), paragraph(text).html)


def _row(magic: Magic) -> tuple[str, str, str]:
    how = usage(magic).removeprefix("usage: ")
    marks = {"line": ("%",), "cell": ("%%",), "both": ("%", "%%")}[magic.form]
    names = ", ".join(mark + magic.name for mark in marks)
    return names, _first_sentence(magic.help), how


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")
