"""What a module becomes on another machine, for reading.  Start from `foreign` and `unplaced`.

The text is the compiler's own assembly, less the directives that only an assembler needs; nothing
of it is linked or runs here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import bare
from jitkernel.regex import regex
from jitkernel.views.asm import source_lines
from jitkernel.views.room import Room
from jitkernel.views.view import View, join, listing, paragraph
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.session import Session

#: Short names of machines, for `--target`; any triple that LLVM knows will do as well.
TARGETS = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "i686": "i686-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
    "arm": "armv7-unknown-linux-gnueabihf",
    "riscv64": "riscv64-unknown-linux-gnu",
    "riscv32": "riscv32-unknown-linux-gnu",
    "ppc64le": "powerpc64le-unknown-linux-gnu",
    "s390x": "s390x-unknown-linux-gnu",
    "mips64el": "mips64el-unknown-linux-gnuabi64",
    "loongarch64": "loongarch64-unknown-linux-gnu",
    "wasm32": "wasm32-unknown-unknown",
    "nvptx64": "nvptx64-nvidia-cuda",
    "bpf": "bpfel-unknown-none",
}
_LABEL = regex(r'("[^"\n]*"|[\w.$@-]+):')
_LOCATION = regex(r"\s*\.loc\s+\d+\s+(\d+)")
_CONSTANTS = (".LCPI", ".L.str", "$CPI")
_SKIPPED = (".debug", ".note", ".llvm", ".eh_frame", ".custom")
_SECTION = regex(r"\s*\.(?:section\s+(\S+)|(text|data|bss)\b)")
_DATA = regex(
    r"\s*\.(?:byte|[248]?byte|short|hword|half|word|long|int(?:8|16|32|64)?|quad|xword|dword|ascii|asciz|string"
    r"|zero|space|skip|single|double|float)\b"
)
_DROPPED_LABELS = regex(r"\.?L?(?:func_begin|func_end|tmp|cfi|debug|info|line|exception)")


class ForeignCode:
    """A module's assembly on another machine: `functions[name]` are `(line or 0, text, is
    instruction)`.

    `machine` is a short name (`aarch64`) or a triple; `data` are the lines of everything that is no
    function; `line_of` makes lines of a cell of those of the text.  Raises CompileError where LLVM
    has no such machine.
    """

    def __init__(
        self, session: Session, request: Request, machine: str, cpu: str = "",
        syntax: str = "intel", line_of: Callable[[int], int] = int,
    ) -> None:  # fmt: skip
        from jitkernel.ir.debug_info import with_locations

        self.triple = TARGETS.get(machine, machine)
        # For RISC-V one that Linux runs on: LLVM's own choice cannot even multiply.
        self.cpu = cpu or ("sifive-u74" if self.triple.startswith("riscv64") else "")
        source = with_locations(request.source, request.first_line) or request.source
        compiler, on = session.inspect.engine.pool, (self.triple, self.cpu, syntax)
        text = compiler.assembly(request._replace(source=source), *on)
        if (
            "@function" not in text
        ):  # of another kind, such as PTX: as it is, without debug sections
            text = compiler.assembly(request, *on)
        self.functions: dict[str, list[tuple[int, str, bool]]] = {}
        self.data: list[str] = []
        self._read(text, line_of)

    def _read(self, text: str, line_of: Callable[[int], int]) -> None:
        self.text = "\n".join(row for row in text.splitlines() if row.strip().strip("/"))
        typed = {
            match[1].strip('"')
            for match in re.finditer(
                r'^\s*\.type\s+("[^"\n]*"|[\w.$-]+),\s*[@%#]function', text, re.M
            )
        }
        here: list[tuple[int, str, bool]] | None = None
        line, skipped = 0, False
        for row in text.splitlines():
            if match := _SECTION.match(row):
                name = match[1] or match[2]
                skipped = name.strip('"').startswith(_SKIPPED)
                continue
            if match := _LOCATION.match(row):
                line = line_of(int(match[1]))
                continue
            if skipped:
                continue
            if match := _LABEL.match(row):
                name = match[1].strip('"')
                if name in typed:
                    here, line = self.functions.setdefault(name, []), line
                elif name.startswith((".Lfunc_end", "$func_end", ".Lfunc_begin")):
                    here = None if "end" in name else here
                elif here is not None and not _DROPPED_LABELS.match(name.lstrip("$.L")):
                    here.append((0, f"{match[1]}:", False))
                elif (here is None and not name.startswith(".L")) or name.startswith(_CONSTANTS):
                    self.data.append(row)
                continue
            if not row.strip():
                continue
            if row.lstrip().startswith(".") or row.lstrip()[0] in "#@/;":
                if here is None and _DATA.match(row):
                    self.data.append(row.expandtabs(8))
                continue
            if here is not None:
                here.append((line, row.strip().expandtabs(8), True))


def foreign(
    session: Session,
    target: int | str | None,
    machine: str,
    cpu: str = "",
    level: int | None = None,
    syntax: str = "intel",
    room: Room | None = None,
) -> View:
    """A function or a cell as it would be on `machine`: a short name of `TARGETS`, or a triple.

    `syntax` is `intel` or `att`, and of x86 alone.  Raises UsageError for a cell without IR,
    CompileError for a machine that LLVM has not.
    """
    cell, _ = session.inspect.cell_of(target)
    request = session.inspect.request(cell.number)
    if level is not None:
        request = request._replace(options=request.options._replace(opt_level=level))
    lines = session.inspect.cell_lines(cell.number, request)
    code = ForeignCode(session, request, machine, cpu, syntax, lines)
    only = bare(target) if isinstance(target, str) else ""
    return _view(session, code, only, session.source(cell.number), f"cell {cell.number}", room)


def unplaced(  # noqa: PLR0913  (public, options by their names)
    session: Session,
    source: str,
    machine: str,
    cpu: str = "",
    level: int = 2,
    syntax: str = "intel",
    language: str = "llvm",
    room: Room | None = None,
) -> View:
    """A cell as it would be on `machine`, without becoming one: nothing is placed or run.

    Functions of the session that it uses are declared for it.  Raises CompileError.
    """
    from jitkernel.compiler.records import Options, Request
    from jitkernel.ir.marks import cell_lines
    from jitkernel.languages.llvm.assemble import assemble

    plan = session.inspect.plan(source, language, level)
    if not plan.entities or plan.actions:
        raise UsageError("what is shown without running it are definitions only")

    made = assemble(
        plan, session.inspect.declaration, session.types, prelude=session.settings.prelude
    )
    request = Request(
        made.source, Options(opt_level=level), "this cell", first_line=made.first_line
    )
    lines = cell_lines(request.source, request.first_line, source)
    code = ForeignCode(session, request, machine, cpu, syntax, lines)
    return _view(session, code, "", source, "this cell", room)


def _view(
    session: Session, code: ForeignCode, only: str, source: str, where: str, room: Room | None
) -> View:
    room = room or Room()
    if not code.functions:  # an assembly of another kind, such as PTX
        return listing(f"{where} on {code.triple}, not placed here", code.text, room)
    names = [only] if only in code.functions else [] if only else list(code.functions)
    if not names:
        what = session.inspect.program.called(only) if only else where
        raise UsageError(f"{what} has no machine code")
    views, used = [], set[int]()
    on = code.triple + (f", {code.cpu}" if code.cpu else "")
    for at, name in enumerate(names):
        if room.full:
            views.append(paragraph(*room.said(len(names) - at, "function")))
            break
        rows = code.functions[name]
        used |= {line for line, _, _ in rows if line}
        width = max(len(str(line)) for line, _, _ in rows) if rows else 1
        body = [
            f"{line or '':>{width}}      {text}" if is_code else f"{'':>{width}}  {text}"
            for line, text, is_code in rows
        ]
        count = sum(is_code for _, _, is_code in rows)
        called, many = session.inspect.program.called(name), counted(count, "instruction")
        title = f"{called} on {on}: {many}, not placed here"
        views.append(listing(title, "\n".join(body), room))
    if code.data and not only:
        views.append(listing("Data", "\n".join(code.data), room))
    if used:
        views.append(source_lines(source, used, f"Lines of {where}", room))
    return join(views, room)
