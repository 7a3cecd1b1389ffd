"""Flags of clang as its driver takes them, made into those of the compiler proper, and refused
where a cell cannot have them.  Start from `flags_of`; of one that is about to be set, `check`.

The driver itself is asked (`clang -###`): what it adds to its command for a flag is what the flag
means.  Source: clang.llvm.org/docs/DriverInternals.html.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from jitkernel.children import Answer, ask
from jitkernel.errors import UsageError
from jitkernel.printable import printable
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

_LINKED = "cells are linked by the session: %lib and %link take libraries, archives and objects"
_INCLUDED = "#include it in a cell: later cells have it too"
_SHOWN = "a cell is compiled for the session and nothing else; %ir and %asm show what becomes of it"
_MACHINE = "cells run on this machine, as x86-64 code; %asm --target shows other machines' code"
#: What cannot be, and what there is instead; `{0}` is what the expression's group has found.
_REFUSED = tuple(
    (regex(expression), words)
    for expression, words in (
        (r"-load.*|-fplugin.*|-fpass-plugin.*|-mllvm|-cc1.*|-X(?:preprocessor|assembler|arch.*)",
         "the session takes the driver's flags"),
        (r"-l(?:m|c|pthread|dl|rt|util)", "the C library is there already: leave it out"),
        (r"-l(.+)", "libraries are loaded by a cell: %lib -l{0}"),
        (r"-L.*|-Wl,.*|-Xlinker|-T|-z|-static.*|-shared.*|-rdynamic|-nostdlib.*|-no-?pie|-pie|-r|-s"
         r"|-fuse-ld.*|-nostartfiles|-nodefaultlibs|-u", _LINKED),
        (r"-fsanitize(?:-.*)?=.*|-fsanitize-.*",
         "%%c --sanitize checks a cell for undefined behaviour"),
        (r"-include|--include.*|-imacros|-include-p[ct]h|-include.+", _INCLUDED),
        (r"-[cSE]|-o.*|-M.*|-x.*|-v|-###|--?save-temps.*|-fsyntax-only|-emit-.*|--version|--help"
         r"|-ftime-.*|-f?[sd]ump.*|--analyze|-print-.*|-C+|-P|-H|-dM?", _SHOWN),
        (r"-m(?:32|16|x32|iamcu)|--?target.*|-arch|--sysroot.*|-isysroot|-mcmodel=.*|-gcc-.*",
         _MACHINE),
        (r"-flto.*|-fprofile.*|--coverage|-fcoverage.*|-fcs-profile.*|-ftest-coverage|-pg"
         r"|-finstrument.*|-fxray.*|-fsplit-.*|-gsplit-.*|-fthinlto.*|-fmodules.*|-fwhole-.*",
         "it needs a program that is linked at once, and files beside it"),
        (r"-mno-(?:sse2?|mmx|x87|80387)|-mgeneral-regs-only|-msoft-float|-mregparm=.*",
         "the C library has its numbers in other registers"),
        (r"-fvisibility=(?:hidden|internal|protected)", "cells see what other cells define"),
    )
)  # fmt: skip
_PATIENCE = 20.0  # seconds
_LEVEL = regex(r"-O(0|1|2|3|4|s|z|fast|g)?")
_LEVELS = {"0": 0, "1": 1, "g": 1, None: 1, "2": 2, "s": 2, "z": 2, "3": 3, "4": 3, "fast": 3}
#: What the session says itself: where code lies, what lines it has, when it is optimised.
_OURS = regex(
    r"-O.*|-debug.*|-dwarf.*|-debugger-.*|-m(?:relocation-model|code-model)|-pic-.*|-vectorize-.*"
    r"|-fdebug-.*|-fcoverage-.*|-main-file-name|-disable-.*|-emit-.*|-fno-verbose-asm|-g.*"
    r"|-triple|-o|-x|-faddrsig|-object-file-.*|-resource-dir|-internal-.*|-ferror-limit"
)
_ERROR = regex(r'(?m)^[^\s"][^"\n]*?: error: (.*)$')
_UNUSED = regex(r'(?m)^[^\s"][^"\n]*?: warning: (.*) \[-Wunused-command-line-argument\]$')
_TAKES_NEXT = frozenset(("-target-feature", "-target-cpu", "-mllvm"))
_TAKEN_BACK = frozenset(("-fmath-errno",))  # those of ours that go where the driver has them not
_BASE = ("--target=x86_64-linux-gnu", "-###", "-O2", "-c", "-x", "c")
#: Flags of clang that run nothing and write nothing, and those of them with an argument behind.
_WITH_ARGUMENT = ("-I", "-D", "-U", "-isystem", "-iquote", "-idirafter")
_HARMLESS = ("-I", "-D", "-U", "-W", "-std=", "-pedantic", "-ffp-contract=", "-fwrapv", "-O", "-m",
             "-fno-strict-aliasing", "-ffast-math", "-funsigned-char", "-fsigned-char",
             "-pthread")  # fmt: skip


class Flags(NamedTuple):
    """Flags as `-cc1` takes them: those that are added, those of ours that go, and whether a
    processor is among them; `level` is that of `-O`, None without."""

    more: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    processor: bool = False
    level: int | None = None

    @property
    def folders(self) -> list[str]:
        """The folders in which clang looks for headers after that of the file that asks."""
        return folders_of(self.more)


@lru_cache(maxsize=32)
def flags_of(program: tuple[str, ...], identity: str, text: str) -> Flags:
    """Parse the text of a setting for the compiler `program -cc1`, which `identity` tells from
    others.  Raises UsageError for what no cell can have."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"Compiler.clang_flags: {error}") from None
    if not words:
        return Flags()
    _refuse(words)
    before, after = _asked(program, identity, ()), _asked(program, identity, tuple(words))
    if after.get("-triple") != before.get("-triple"):
        raise _refused(" ".join(words), _MACHINE)
    if "-emit-obj" not in after:
        raise _refused(" ".join(words), _SHOWN)
    known = Counter(group for groups in before.values() for group in groups)
    more: list[str] = []
    for name, groups in after.items():
        for group in groups:
            if known[group] > 0:
                known[group] -= 1
            elif not _OURS.fullmatch(name):
                more += group
    if any(word.startswith("-march=") for word in words):  # be it the driver's own
        more += after["-target-cpu"][-1]
    gone = frozenset(name for name in _TAKEN_BACK if name in before and name not in after)
    processor = not _TAKES_NEXT.isdisjoint(more)
    levels = [_LEVELS[found[1]] for word in words if (found := _LEVEL.fullmatch(word))]
    return Flags(tuple(more), gone, processor, levels[-1] if levels else None)


@lru_cache(maxsize=64)
def folders_of(flags: tuple[str, ...], named: str = "I|iquote|isystem") -> list[str]:
    """The folders that stand at once behind these flags, or as the next word."""
    found = []
    for at, flag in enumerate(flags):
        if match := re.fullmatch(rf"-(?:{named})(.*)", flag, re.DOTALL):
            found.append(match[1] or "".join(flags[at + 1 : at + 2]))
    return found


def _refuse(words: Sequence[str]) -> None:
    argument = False
    for word in words:
        if argument or word in _WITH_ARGUMENT or word == "-Xclang":
            argument = not argument
            continue
        if word[:1] != "-":
            raise _refused(word, "flags begin with a -; %link takes objects and archives")
        for expression, instead in _REFUSED:
            if found := expression.fullmatch(word):
                raise _refused(word, instead.format(*found.groups()))


def _refused(word: str, instead: str) -> UsageError:
    return UsageError(f"Compiler.clang_flags: {printable(word)} is not for cells: {instead}")


def answer(command: Sequence[str]) -> Answer:
    """The answer of clang, asked of itself.  Raises UsageError where the command gives none."""
    try:
        return ask(command, _PATIENCE, {**os.environ, "LC_ALL": "C.UTF-8"})
    except OSError as error:
        raise UsageError(f"{command[0]} does not answer as a clang does: {error}") from None


@lru_cache(maxsize=32)
def _asked(
    program: tuple[str, ...], identity: str, words: tuple[str, ...]
) -> dict[str, list[tuple[str, ...]]]:
    """The driver's command for these flags: by each option what it is given with, in order."""
    driver = [word for word in program if word != "-cc1"]
    run = answer([*driver, *_BASE, os.devnull, *words])
    for wrong in (_ERROR, _UNUSED):
        if found := wrong.search(run.errors):
            raise UsageError(f"Compiler.clang_flags: {printable(found[1])}")
    line = next((line for line in run.errors.split("\n") if ' "-cc1" ' in line), "")
    return _grouped(shlex.split(line.partition(' "-cc1" ')[2]))


def _grouped(words: list[str]) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    at = 0
    while at < len(words):
        stop = at + 1 + (words[at] in _TAKES_NEXT)
        while stop < len(words) and not words[stop].startswith("-"):
            stop += 1
        found.setdefault(words[at], []).append(tuple(words[at:stop]))
        at = stop
    return found


def harmless(flags: str) -> str:
    """Those of some flags that say where headers are, which macros there are, which C it is and for
    which processor; no others are taken from a stranger: clang runs code of plugins."""
    found: list[str] = []
    try:
        words = iter(shlex.split(flags))
    except ValueError:
        return ""
    for word in words:
        if word in _WITH_ARGUMENT:
            argument = next(words, None)
            found += [word, argument] if argument is not None else []
        elif word.startswith(_HARMLESS) and not word.startswith("-mllvm"):
            found.append(word)
    return shlex.join(found)
