"""A prompt with gdb's words, where a program stands: text in, text out.

Whoever has a line of text and a place to print has a debugger: `Debugger.prompt`.  Each stop opens
the prompt in the thread that waits for the call, until a word lets the program go on.  Start from
`Prompt`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.elf.registers import SHOWN
from jitkernel.errors import Interrupted, JitError, UsageError
from jitkernel.regex import regex
from jitkernel.session.debugging import shows
from jitkernel.session.debugging.dump import Format, dump, read_format
from jitkernel.session.debugging.points import NOT_RUN
from jitkernel.session.debugging.records import Breakpoint, Frame, Motion, Stopped
from jitkernel.session.debugging.where import ROWS, rows, shown, texts, wanted
from jitkernel.wording import counted, did_you_mean

if TYPE_CHECKING:
    from jitkernel.executor.watches import Access
    from jitkernel.session.debugging.records import Event
    from jitkernel.session.debugging.shows import Seen

__all__ = ["COMMANDS", "OPTIMISED", "PROMPT", "Prompt"]

PROMPT, OPTIMISED = "(debug) ", "(debug -O2) "
_SET = regex(r"(?:set\s+(?:var\s+)?)?([%@$*&(]*[\w.$\[\]>)%@+-]+)\s*=(?!=)\s*(.*)\Z")
_WORD = regex(r"([A-Za-z][\w-]*|[?])(?:/(\w*))?(?:\s+|\Z)")
_TOLD = 8  # stops of one call, where nobody can be asked
_EDGES = ("inner", "outer")
_AROUND = 5  # lines above and below the one that it stands at


class Command(NamedTuple):
    """A word of the prompt: its names, what follows it, what it does, and the method for that."""

    names: str
    takes: str
    help: str
    method: str


COMMANDS = (
    Command("next n", "[TIMES]", "go to the next line, over what it calls", "next"),
    Command("step s", "[TIMES]", "go to the next line, into what it calls", "step"),
    Command("continue c cont", "[TIMES]", "go on to the next breakpoint", "continue"),
    Command("finish fin out", "", "go on until the function returns", "finish"),
    Command("until", "[LINE]", "go on to a line further down, or to this one", "until"),
    Command("stepi si nexti ni", "[TIMES]", "go on by one instruction", "instruction"),
    Command("quit q exit", "", "end the cell, as an interrupt does", "quit"),
    Command("where bt backtrace", "", "the frames, innermost first", "where"),
    Command("up u", "[TIMES]", "look at the caller", "up"),
    Command("down d", "[TIMES]", "look at what it calls", "down"),
    Command("frame f", "[NUMBER]", "look at a frame", "frame"),
    Command("thread", "[NUMBER]", "look at a thread (info threads), and step in it", "thread"),
    Command("list l", "[LINE | FIRST,LAST]", "the source, => where it stands", "list"),
    Command("print p call", "EXPR", "a value, print/x in hex; `x = 5` sets, f(3) calls", "print"),
    Command("display", "[EXPR]", "show a value at each stop", "display"),
    Command("undisplay", "[NUMBER]", "no longer", "undisplay"),
    Command("set", "NAME = EXPR", "set a variable, or a register ($rax)", "set"),
    Command("x", "/FMT ADDRESS", "memory: x/8xb p, x/s p, x/4i $rip", "memory"),
    Command("disassemble disas", "[ADDRESS]", "the instructions of the function", "disassemble"),
    Command(
        "info i", "WHAT", "locals, registers, breakpoints, threads, globals, frame, display", "info"
    ),
    Command("break b", "[PLACE] [if EXPR]", "stop there, too: 3, 2:3, f, *0x3f100000", "break"),
    Command("tbreak tb", "[PLACE] [if EXPR]", "the same, once", "tbreak"),
    Command("watch", "EXPR [if EXPR]", "stop where it is written", "watch"),
    Command("awatch", "EXPR [if EXPR]", "stop where it is written or read", "awatch"),
    Command("delete clear", "[NUMBER]", "remove a breakpoint, or all", "delete"),
    Command("help h ?", "", "this", "help"),
)
_BY_NAME = {name: command for command in COMMANDS for name in command.names.split()}
#: Words of gdb that have no meaning here, and what to do instead.
_NOT = {
    "rwatch": "watched is what is written (`watch`), or that and what is read (`awatch`)",
    "run r start": "the cell runs already: `c` goes on, and `q` ends it",
    "reverse-step reverse-next reverse-continue record": "there is no way back: run the cell again",
    "return": "no function is left before its end: `finish` goes on until it returns",
    "jump j": "nothing can be left out: `set $rip = ADDRESS` moves where it goes on",
}
_REFUSED = {word: why for words, why in _NOT.items() for word in words.split()}
#: What words that let the program go on mean by that.
_MOTIONS: Mapping[str, Motion] = {
    "next": "next", "step": "step_in", "continue": "continue", "finish": "step_out",
    "instruction": "instruction",
}  # fmt: skip


class Prompt:
    """The prompt of a program that stands, or of what one has left.

    `read_line(prompt)` gives a line of the user's, None where nobody can be asked, and may raise
    EOFError and Interrupted; `write` prints lines.
    `other(line)` does a line of the frontend's own (`%asm`) and says whether it was one,
    `numbers` gives the number of a cell with a text, `sources` the text of a cell by its number.
    """

    def __init__(
        self,
        program: Seen,
        read_line: Callable[[str], str | None],
        write: Callable[[str], object],
    ):
        self.seen = program
        self.other: Callable[[str], bool] = lambda line: False
        self.numbers: Callable[[str], int] = program.cell_of
        self.sources: Callable[[int], str] = program.source_of
        self._read, self._write = read_line, write
        self.chosen = 0  # the frame that is looked at
        self._displays: dict[int, str] = {}
        self._last = ""  # what an empty line does again
        self._motion: Motion = "continue"  # that was asked for last
        self._times = 0  # that it is to be done again
        self._until: tuple[int, int] | None = None  # how many frames there are, and where
        self._listed = 0  # the last line that was
        self._format = Format()
        self._unasked = 0  # stops of this call where nobody could be asked
        self._told = ""  # where it stood last: the function's name

    # -- events --------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Something has happened: see `Debugger.listener`."""
        match event.kind:
            case "stopped" if event.stopped is not None:
                self._stopped(event.stopped)
            case "output":
                self._write(event.text.rstrip("\n"))
            case "breakpoint" if (point := event.breakpoint) is not None:
                if point.message and not point.verified and point.message != NOT_RUN:
                    where = shown(point, self.numbers)
                    self._write(f"breakpoint {point.number}, {where}: {point.message}")
            case "ended":
                self._unasked, self._last, self._told = 0, "", ""
                self._times, self._until = 0, None

    def _stopped(self, stop: Stopped) -> None:
        frames = self.seen.frames()
        self.chosen = self._listed = 0
        if self._goes_on(stop, frames):
            return
        self._times, self._until = 0, None
        if self._unasked > _TOLD:  # that was said
            self.seen.go()
            return
        self._tell(stop, frames)
        self._ask()

    def _goes_on(self, stop: Stopped, frames: list[Frame]) -> bool:
        """True if what was asked for takes more than this stop."""
        if self._until is not None and stop.reason == "step" and frames:
            depth, address = self._until
            if len(frames) == depth and frames[0].address <= address:
                self.seen.go("next")
                return True
        if self._times > 0 and stop.reason in ("step", "breakpoint"):
            if (stop.reason == "breakpoint") == (self._motion == "continue"):
                self._times -= 1
                self.seen.go(self._motion)
                return True
        return False

    def _tell(self, stop: Stopped, frames: list[Frame]) -> None:
        if not frames:
            self._write(f"{stop.text or stop.reason}: no frame can be told")
            return
        frame = frames[0]
        if stop.reason != "step" or frame.name != self._told:
            self._write(shows.place(stop, frame))
        self._told = frame.name
        self._write("\n".join(self._here(frame)))
        for number, text in self._displays.items():
            if not (shown := self._shown(text)).startswith("<nothing here"):
                self._write(f"{number}: {text} = {shown}")
        if stop.reason == "exception":
            self._write(
                "`c` ends the cell, as without a debugger; where you `set` something first, the "
                "line begins again"
            )

    def _here(self, frame: Frame) -> Iterator[str]:
        if text := shows.text_of(frame):
            yield f"{frame.line:>4}  {text}"
        else:
            for address, code in self.seen.disassemble(frame.address, 1):
                yield f"  => {address:#x}: {code}"

    # -- the prompt ----------------------------------------------------------------------------

    def _ask(self) -> None:
        try:
            while True:
                optimised = getattr(self.seen, "optimised", False)
                if (line := self._read(OPTIMISED if optimised else PROMPT)) is None:
                    self._go_unasked()
                    return
                if self.do(line) or self.seen.stop is None:  # %debug off
                    return
        except (EOFError, Interrupted, KeyboardInterrupt):
            self.seen.end()

    def _go_unasked(self) -> None:
        self._unasked += 1
        if self._unasked == 1:
            for line in shows.local_values(self.seen, 0):
                self._write(f"  {line}")
            self._write(
                "nobody can be asked here: it goes on. `%break ... --log` prints values without "
                "stopping"
            )
        elif self._unasked > _TOLD:
            self._write("further stops of this run are not told")
        self.seen.go()

    def look(self, stop: Stopped) -> None:
        """Open the prompt for what has ended; without anybody to ask, show its frames."""
        frames = self.seen.frames()
        self.chosen = self._listed = 0
        if frames:
            self._write(shows.place(stop, frames[0]))
        with contextlib.suppress(EOFError):
            while (line := self._read(PROMPT)) is not None:
                if self.do(line):
                    return
            self._do_where("")

    def do(self, line: str) -> bool:
        """Do what a line says; True if the prompt is to close."""
        line = line.strip() or self._last
        try:
            return bool(line) and self._do(line)
        except Interrupted:
            raise
        except JitError as error:
            self._write(str(error))
            return False

    def _do(self, line: str) -> bool:
        if line[0] in "%!" and self.other(line):
            return False
        if (found := _SET.match(line)) is not None and not line.startswith("set $"):
            if (
                not line.startswith("set ")
                and found[1] in _BY_NAME
                and not self._is_known(found[1])
            ):
                raise UsageError(f"nothing here is called {found[1]}: `{line}` sets nothing")
            self._set(f"{found[1]} = {found[2]}")
            return False
        match = _WORD.match(line)
        word, rest = (match[1], line[match.end() :].strip()) if match else ("", line)
        if word in _REFUSED:
            raise UsageError(f"{word}: {_REFUSED[word]}")
        command = _command(word) if match is not None else None
        if command is None:
            return self._look(line, word)
        if match is not None and match[2] is not None:  # x/8xb, p/x
            if command.method not in ("memory", "print"):
                raise UsageError(f"`{command.names.split()[0]}` takes no /{match[2]}")
            rest = f"/{match[2]} {rest}"
        if command.method in _MOTIONS or command.method == "until":
            self._last = line
        if (motion := _MOTIONS.get(command.method)) is not None:
            return self._go(rest if command.takes else "", motion)
        done = getattr(self, f"_do_{command.method}")
        return bool(done(rest))

    def _look(self, line: str, word: str) -> bool:
        """Evaluate what is no word of the prompt's."""
        try:
            self._write(self._shown(line, strict=True, calls=True))
        except UsageError as error:
            if not word or not word == line.split()[0]:
                raise
            near = did_you_mean(word, _BY_NAME, "`{}`".format)
            if near or " " in line:
                raise UsageError(
                    f"there is no word `{word}`{near or ';'} `help` lists what there is"
                ) from None
            raise UsageError(f"{error}; `help` lists the words of this prompt") from None
        return False

    def _is_known(self, name: str) -> bool:
        try:
            self.seen.evaluate(name, self.chosen)
        except UsageError:
            return False
        return True

    # -- going on ------------------------------------------------------------------------------

    def _go(self, rest: str, motion: Motion) -> bool:
        self._times, self._motion = _count(rest) - 1, motion
        self.seen.go(motion)
        return True

    def _do_until(self, rest: str) -> bool:
        frames = self.seen.frames()
        if rest:
            point = wanted(rest, self._source, Breakpoint(temporary=True))
            self.seen.add(point)
            return self._go("", "continue")
        self._until = len(frames), frames[0].address
        return self._go("", "next")

    def _do_quit(self, rest: str) -> bool:
        self.seen.end()
        return True

    # -- frames --------------------------------------------------------------------------------

    @property
    def _frame(self) -> Frame:
        return self.seen.frames()[self.chosen]

    def _do_where(self, rest: str) -> None:
        self._write("\n".join(shows.back_trace(self.seen.frames(), self.chosen)))

    def _do_up(self, rest: str) -> None:
        self._choose(self.chosen + _count(rest))

    def _do_down(self, rest: str) -> None:
        self._choose(self.chosen - _count(rest))

    def _do_frame(self, rest: str) -> None:
        self._choose(_number(rest) if rest else self.chosen, move=False)

    def _do_thread(self, rest: str) -> None:
        ids = sorted(thread for thread, _ in self.seen.threads())
        if rest:
            number = _number(rest)
            self.seen.choose(ids[number - 1] if 0 < number <= len(ids) else number)
            self.chosen = self._listed = 0
        number = ids.index(self.seen.thread) + 1 if self.seen.thread in ids else 0
        frames = self.seen.frames()
        self._write(f"thread {number}: {shows.where(frames[0]) if frames else 'no frame'}")
        if frames:
            self._write("\n".join(self._here(frames[0])))

    def _choose(self, index: int, move: bool = True) -> None:
        frames = self.seen.frames()
        if not 0 <= index < len(frames):
            edge = index < 0 or (move and self.chosen == len(frames) - 1)
            if edge and move:
                raise UsageError(f"frame {self.chosen} is the {_EDGES[index > 0]}most")
            raise UsageError(f"there is no frame {index}: `bt` shows {len(frames)}, from 0 on")
        self.chosen, self._listed = index, 0
        frame = frames[index]
        self._write("\n".join([f"#{index} {shows.where(frame)}", *self._here(frame)]))

    def _do_list(self, rest: str) -> None:
        frame = self._frame
        if not frame.source:
            raise UsageError(f"{frame.name} has no source here: `disas` shows its instructions")
        first, _, last = rest.partition(",")
        if last:
            start, stop = _number(first), _number(last)
        else:
            middle = _number(first) if first else max(frame.line, 1)
            start, stop = middle - _AROUND, middle + _AROUND
            if not first and self._listed:
                start, stop = self._listed + 1, self._listed + 2 * _AROUND
        lines = [*shows.listing(frame, start, stop, self.seen.breakpoints)]
        if not lines:
            raise UsageError(f"there are no more lines: {self._lines(frame)}")
        self._listed = stop
        self._write("\n".join(lines))

    @staticmethod
    def _lines(frame: Frame) -> str:
        return f"the cell has {counted(len(frame.source.rstrip().split(chr(10))), 'line')}"

    # -- values --------------------------------------------------------------------------------

    def _shown(self, text: str, strict: bool = False, calls: bool = False) -> str:
        try:
            return shows.value(self.seen.evaluate(text, self.chosen, calls=calls))
        except UsageError as error:
            if not strict:
                return f"<{error}>"
            frame = self._frame
            if frame.library or self._has_locals() or text.startswith("$"):
                raise
            raise UsageError(f"{error}; {shows.NOT_KNOWN}") from None

    def _has_locals(self) -> bool:
        return any(scope.name == "Locals" for scope in self.seen.scopes(self.chosen))

    def _address(self, text: str) -> int:
        """The number that an expression is, or the address that it has.  Raises UsageError."""
        if text.startswith("@") and (at := self.seen.address_of(text)):
            return at
        try:
            found = self.seen.evaluate(f"(unsigned long)({text})", self.chosen)
        except UsageError:
            if at := self.seen.address_of(text):
                return at
            whole = self.seen.evaluate(text, self.chosen)
            if not whole.address:
                raise
            return whole.address
        return int(found.value.split()[0], 0)

    def _do_print(self, rest: str) -> None:
        letter, rest = _slash(rest)
        if not rest:
            raise UsageError("print needs an expression: p x, p a[3], p *node, p %y, p $rax")
        if not letter:
            self._write(self._shown(rest, strict=True, calls=True))
            return
        format = read_format(letter, Format(1, "x", 8))
        data = self._address(rest).to_bytes(8, "little")
        line = next(dump(0, format, lambda at, size: data[at : at + size], lambda at: ""))
        text = line.partition(": ")[2]
        self._write(hex(int(text, 16)) if format.letter == "x" else text)

    def _do_display(self, rest: str) -> None:
        if rest:
            number = max(self._displays, default=0) + 1
            self._write(f"{number}: {rest} = {self._shown(rest, strict=True)}")
            self._displays[number] = rest
            return
        for number, text in self._displays.items():
            self._write(f"{number}: {text} = {self._shown(text)}")
        if not self._displays:
            self._write("nothing is displayed: `display x` shows x at each stop")

    def _do_undisplay(self, rest: str) -> None:
        if not rest:
            self._displays.clear()
        elif self._displays.pop(_number(rest), None) is None:
            there = ", ".join(map(str, self._displays)) or "none"
            raise UsageError(f"there is no display {rest}; there are: {there}")

    def _do_set(self, rest: str) -> None:
        rest = rest.removeprefix("var ").strip()
        if "=" not in rest:
            raise UsageError("set takes NAME = EXPR: set x = 5, set $rax = 0")
        self._set(rest)

    def _set(self, text: str) -> None:
        name, _, given = (part.strip() for part in text.partition("="))
        if not given:
            raise UsageError(f"{name} = what? set x = 5")
        made = self.seen.evaluate(f"{name} = {given}", self.chosen, calls=True)
        made.name = name
        self._write(f"{name} = {shows.value(made, bare=True)}")

    def _do_memory(self, rest: str) -> None:
        letters, rest = _slash(rest)
        if not rest:
            raise UsageError("x needs an address: x/8xb p, x/s p, x/4i $rip, x/2xg @g")
        format = self._format = read_format(letters, self._format)
        address = self._address(rest)
        if format.letter == "i":
            for at, text in self.seen.disassemble(address, format.many):
                self._write(f"{at:#x}: {text}")
            return
        self._write("\n".join(dump(address, format, self.seen.read, self.seen.name_of)))

    def _do_disassemble(self, rest: str) -> None:
        address = self._address(rest) if rest else None
        self._write("\n".join(shows.disassembly(self.seen, self._frame, address)))

    def _do_info(self, rest: str) -> None:
        what, _, which = rest.partition(" ")

        def variables() -> Iterator[str]:
            return shows.local_values(self.seen, self.chosen)

        def globals() -> Iterator[str]:
            return (f"{v.name} = {shows.value(v, bare=True)}" for v in self.seen.globals())

        found: dict[str, Callable[[], Iterable[str]]] = {
            "locals": variables,
            "args": variables,
            "registers": lambda: self._registers(which.strip().lstrip("$")),
            "breakpoints": self._breakpoints,
            "threads": lambda: shows.threads(self.seen),
            "globals": globals,
            "variables": globals,
            "frame": lambda: [f"#{self.chosen} {shows.where(self._frame)}"],
            "display": lambda: (f"{n}: {text}" for n, text in self._displays.items()),
        }
        names = [name for name in found if what and name.startswith(what)]
        if not names:
            known = "locals, registers, breakpoints, threads, globals, frame, display"
            raise UsageError(f"info takes one of {known}{did_you_mean(what, found)}")
        lines = [*found[names[0]]()]
        self._write("\n".join(lines) if lines else f"no {names[0]}")

    def _registers(self, which: str) -> Iterator[str]:
        registers = self.seen.registers(self.chosen)
        if which and which not in registers:
            known = ", ".join(registers)
            raise UsageError(f"there is no register {which}; known here: {known}")
        for name in sorted(registers, key=SHOWN.index):
            value = registers[name]
            if which in ("", name):
                yield f"{name:<6} {value:#018x}  {self.seen.name_of(value)}".rstrip()

    # -- breakpoints ---------------------------------------------------------------------------

    def _source(self, cell: int) -> str:
        """The text of a cell; for 0 of the frame's that is looked at."""
        if cell:
            return self.sources(cell)
        if not (source := self._frame.source):
            raise UsageError("this frame is in no cell: write the cell, too: `break 2:3`")
        return source

    def _breakpoints(self) -> list[str]:
        points = self.seen.breakpoints
        return texts(ROWS, rows(points, self.numbers)) if points else []

    def _do_break(self, rest: str, once: bool = False) -> None:
        if not rest or rest.startswith("if "):
            rest = f"{self._frame.line} {rest}"
        made = self.seen.add(wanted(rest, self._source, Breakpoint(temporary=once)))
        words = "" if made.verified else f": {made.message}"
        self._write(f"breakpoint {made.number}: {shown(made, self.numbers)}{words}")

    def _do_tbreak(self, rest: str) -> None:
        self._do_break(rest, once=True)

    def _do_watch(self, rest: str, access: Access = "write") -> None:
        watch = getattr(self.seen, "watch", None)
        if watch is None:
            raise UsageError("the call is over: nothing writes to it any more")
        what, _, condition = rest.partition(" if ")
        if not what.strip():
            raise UsageError("watch needs an expression: watch x, watch p->next, watch a[2]")
        made: Breakpoint = watch(
            what, access=access, frame=self.chosen, condition=condition.strip()
        )
        self._write(f"watchpoint {made.number}: {made.watch}")

    def _do_awatch(self, rest: str) -> None:
        self._do_watch(rest, "readWrite")

    def _do_delete(self, rest: str) -> None:
        every = [point.number for point in self.seen.breakpoints]
        for number in every if rest in ("", "all") else [_number(rest)]:
            self.seen.remove(number)

    def _do_help(self, rest: str) -> None:
        heads = [f"{c.names.replace(' ', ', ')} {c.takes}".rstrip() for c in COMMANDS]
        width = max(map(len, heads))
        lines = [f"{h:<{width}}  {c.help}" for h, c in zip(heads, COMMANDS, strict=True)]
        lines.append("An empty line does the last motion again; an expression alone is shown.")
        self._write("\n".join(lines))


def _command(word: str) -> Command | None:
    """The command that a word, or the beginning of one's name, means."""
    if word in _BY_NAME:
        return _BY_NAME[word]
    found = {_BY_NAME[name] for name in _BY_NAME if len(word) > 1 and name.startswith(word)}
    return found.pop() if len(found) == 1 else None


def _slash(rest: str) -> tuple[str, str]:
    """The letters behind a slash, and what follows them."""
    if not rest.startswith("/"):
        return "", rest
    letters, _, rest = rest[1:].partition(" ")
    return letters, rest.strip()


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"`{text.strip()}` is no number") from None


def _count(text: str) -> int:
    number = _number(text) if text else 1
    if number < 1:
        raise UsageError(f"`{text}`: how often? At least 1")
    return number
