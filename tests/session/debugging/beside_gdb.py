"""A C program stopped at lines by gdb, built natively, and by a session.  Start from `native` and
`ours`.

A stop is what each sees at the n-th hit of a breakpoint at a line: the frames, and the values of
their variables, with what pointers lead to.  What was never written differs between two native
builds, one filled with zeros and one with a pattern: it is None.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ziglang

from jitkernel import Session
from jitkernel.errors import JitError, UsageError
from jitkernel.session.debugging.numbers import decode
from jitkernel.session.debugging.records import Breakpoint, Event
from jitkernel.session.debugging.values import Value, bytes_of, children
from jitkernel.values.datatype import Member
from jitkernel.values.python import bit_field

HITS = (1, 2, 5)  # of each breakpoint that are looked at
DEPTH, WIDTH, LEAVES, FRAMES = 5, 6, 60, 16
_FILLS = {"zero": "85", "pattern": "170"}  # of variables, and of what malloc gives
_FLAGS = ("-g", "-gdwarf-4", "-fno-omit-frame-pointer", "-w", "-fcommon", "-march=native")

Names = dict[str, tuple[int, dict[str, Any]]]


class Seen(NamedTuple):
    """A frame: its function, its line, and by the name of each variable the line where it is
    declared (0: not known) with its scalars by their paths."""

    name: str
    line: int
    names: Names


Stops = dict[tuple[int, int], list[Seen]]  # by the line that was asked for, and the hit

_SCRIPT = r"""
import gdb, json, math
SEEN, WHERE = [], {}
def number(value):
    if value.type.sizeof > 8:
        return value.format_string(format="d")
    return str(int(value))
def leaves(path, value, out, depth=0, followed=False):
    if len(out) >= LEAVES:
        return
    type = value.type.strip_typedefs().unqualified()
    code = type.code
    if value.is_optimized_out:
        out[path] = None
    elif code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        for field in type.fields() if depth < DEPTH else ():
            inner = path + "." + field.name if field.name else path
            leaves(inner, value[field], out, depth + 1, followed)
    elif code == gdb.TYPE_CODE_ARRAY:
        low, high = type.range()
        for index in range(low, min(high, WIDTH - 1) + 1) if depth < DEPTH else ():
            leaves(path + "[%d]" % index, value[index], out, depth + 1, followed)
    elif code in (gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_DECFLOAT):
        out[path] = repr(float(value))
    elif code == gdb.TYPE_CODE_COMPLEX:
        out[path] = [repr(float(value.real)), repr(float(value.imag))] if hasattr(value, "real") else None
    elif code == gdb.TYPE_CODE_PTR:
        address = int(value)
        of = type.target().strip_typedefs().unqualified()
        out[path] = "0" if not address else "pointer"
        if followed and address:
            try:
                gdb.selected_inferior().read_memory(address, 1)
            except gdb.error:
                out[path] = None  # nobody put it there
        if address and of.code == gdb.TYPE_CODE_FUNC:
            block = gdb.block_for_pc(address)
            known = block is not None and block.function is not None and block.start == address
            out[path] = block.function.name if known else None
        elif address and of.code not in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC) and not followed:
            try:
                inside = {}
                leaves("", value.dereference(), inside, depth + 1, True)
                out.update({path + "*" + name: found for name, found in inside.items()})
            except gdb.error:
                out[path] = None
    else:
        out[path] = number(value)
def look():
    frame, frames = gdb.newest_frame(), []
    while frame is not None and frame.is_valid() and len(frames) < FRAMES:
        names = {}
        try:
            block = frame.block() if frame.function() is not None else None
        except RuntimeError:
            block = None
        while block is not None:
            for symbol in block:
                if symbol.name not in names and (
                    symbol.is_variable or symbol.is_argument or symbol.is_constant
                ):
                    out = {}
                    try:
                        leaves("", symbol.value(frame), out)
                    except (gdb.error, ValueError, TypeError, OverflowError) as error:
                        out = {"": None}
                    names[symbol.name] = [symbol.line, out]
            if block.function is not None:
                break
            block = block.superblock
        frames.append([frame.name(), frame.find_sal().line, names])
        if frame.name() == MAIN:
            break
        frame = frame.older()
    return frames
class Point(gdb.Breakpoint):
    def __init__(self, place, line):
        super().__init__(place)
        self.asked, self.met = line, 0
        self.silent = True
    def stop(self):
        self.met += 1
        if self.met in HITS:
            SEEN.append([self.asked, self.met, look()])
        if self.met >= max(HITS):
            self.enabled = False
        return not any(point.enabled for point in gdb.breakpoints())
gdb.execute("set pagination off")
if SHUFFLED:
    gdb.execute("set disable-randomization off")  # what is left in freed memory differs, too
gdb.execute("set breakpoint pending off")
gdb.execute("set backtrace past-main off")
for line in LINES:
    try:
        _, [where, *_] = gdb.decode_line("a.c:%d" % line)
        WHERE[line] = where.line
        if not where.symtab or not where.symtab.filename.endswith("a.c"):
            WHERE[line] = 0
            continue
        if line in CHOSEN:
            Point("a.c:%d" % line, line)
    except (gdb.error, ValueError, TypeError):
        WHERE[line] = 0
if MARKER:
    Point("marker", 0)
if CHOSEN or MARKER:
    gdb.execute("run < /dev/null > /dev/null 2>&1", to_string=True)
open(OUT, "w").write(json.dumps([WHERE, SEEN]))
"""


def build(source: str, folder: Path, name: str, *flags: str) -> Path:
    """A program made natively by the compiler of C cells.  Raises CalledProcessError."""
    text, code, made = folder / "a.c", folder / f"{name}.o", folder / name
    text.write_text(source)
    home = Path(str(ziglang.__file__)).parent
    clang = [str(home / "zig"), "clang", "--target=x86_64-linux-gnu"]
    clang += ["-isystem", str(home / "lib/include")]
    env = {**os.environ, "HOME": str(folder)}
    pie = "-pie" if "-fPIE" in flags else "-no-pie"
    for command in (
        [*clang, *_FLAGS, *flags, "-c", "a.c", "-o", str(code)],
        ["gcc", pie, str(code), "-o", str(made), "-lm", "-lpthread"],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=100, env=env, cwd=folder)
    return made


def _gdb(
    program: Path,
    fill: str,
    lines: Sequence[int],
    chosen: Sequence[int],
    timeout: float,
    hits: Sequence[int] = (),
) -> tuple[dict[int, int], Stops]:
    folder = program.parent
    script, out = folder / "stop.py", folder / "out.json"
    out.unlink(missing_ok=True)
    known: dict[str, Any] = {
        "OUT": str(out), "LINES": [*lines], "CHOSEN": [*chosen], "HITS": [*(hits or HITS)],
        "MARKER": bool(hits), "DEPTH": DEPTH, "WIDTH": WIDTH, "LEAVES": LEAVES, "FRAMES": FRAMES,
        "MAIN": "main", "SHUFFLED": fill != "0",
    }  # fmt: skip
    script.write_text("".join(f"{n} = {v!r}\n" for n, v in known.items()) + _SCRIPT)
    env = {**os.environ, "HOME": str(folder), "DEBUGINFOD_URLS": "", "MALLOC_PERTURB_": fill}
    subprocess.run(
        ["gdb", "-nx", "-batch", "-x", str(script), str(program)], env=env, cwd=folder,
        check=True, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    where, seen = json.loads(out.read_text())
    stops = {
        (line, hit): [Seen(n, at, {k: (v[0], v[1]) for k, v in names.items()})
                      for n, at, names in frames]
        for line, hit, frames in seen
    }  # fmt: skip
    return {int(line): at for line, at in where.items()}, stops


def built(source: str, folder: Path) -> None:
    """Make a program without optimisation, plain and with two fillings.  Raises
    CalledProcessError."""
    for fill in _FILLS:
        build(source, folder, fill, "-O0", "-fPIE", f"-ftrivial-auto-var-init={fill}")
    build(source, folder, "plain", "-O0")


def places(source: str, folder: Path) -> dict[int, int]:
    """Where gdb would stop for each line of a program that was made: the line itself or the next
    with code."""
    every = range(1, source.count("\n") + 2)
    found = _gdb(folder / "plain", "0", every, (), 100)[0]
    return {line: at for line, at in found.items() if at}


def native(
    folder: Path, lines: Sequence[int], timeout: float = 100, hits: Sequence[int] = ()
) -> Stops:
    """The stops of the program that `built` has made, of what all builds agree on: at these lines,
    or at these hits of its function `marker` (as those of line 0)."""
    found = _gdb(folder / "plain", "0", lines, lines, timeout, hits)[1]
    for fill, byte in _FILLS.items():
        filled = _gdb(folder / fill, byte, lines, lines, timeout, hits)[1]
        for key, stop in found.items():
            other = filled.get(key, [])
            if [f[:2] for f in other] != [f[:2] for f in stop]:
                other = [Seen("", 0, {})] * len(stop)
            found[key] = [
                Seen(a.name, a.line, {n: (at, _agreed(parts, b.names.get(n, (0, {}))[1]))
                                      for n, (at, parts) in a.names.items()})
                for a, b in zip(stop, other, strict=True)
            ]  # fmt: skip
    return found


def _agreed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {path: value if other.get(path) == value else None for path, value in one.items()}


def leaves(
    value: Value, read: Any, name_of: Any, path: str = "", depth: int = 0, followed: bool = False,
    out: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The scalars in a value by their paths, as gdb's script has them."""
    found: dict[str, Any] = {} if out is None else out
    if len(found) >= LEAVES:
        return found
    bare = value.type.bare
    if value.missing:
        found[path] = None
    elif bare.kind in ("struct", "union", "array", "vector"):
        count = 0 if bare.kind in ("struct", "union") else WIDTH
        if depth < DEPTH:
            for part in children(value, read, 0, count)[: count or None]:
                inner = path + part.path
                leaves(part.value, read, name_of, inner, depth + 1, followed, found)
    elif (data := bytes_of(value, read)) is None:
        found[path] = "unreadable"
    elif value.bits:
        found[path] = str(int(bit_field(Member("", bare, 0, value.bits, value.shift), data)))
    elif bare.kind == "complex":
        found[path] = [
            repr(float(decode(p.value.type.bare, bytes_of(p.value, read) or b"")))
            for p in children(value, read)
        ]
    elif bare.kind == "pointer":
        address = int.from_bytes(data, "little")
        found[path] = "pointer" if address else "0"
        of = bare.element.bare if bare.element is not None else None
        if address and of is not None and of.kind == "function":
            found[path] = name_of(address)
        elif address and of is not None and of.kind not in ("void", "bytes") and not followed:
            inside = leaves(Value(of, address), read, name_of, "", depth + 1, True)
            found |= {f"{path}*{name}": leaf for name, leaf in inside.items()}
    else:
        number = decode(bare, data)
        found[path] = repr(float(number)) if bare.kind == "float" else str(int(number))
    return found


def ours(
    s: Session, source: str, lines: Sequence[int], hits: Sequence[int] = ()
) -> tuple[dict[int, int], Stops]:
    """Where each breakpoint was set, and the stops, of the same program in one cell."""
    wanted = hits or HITS
    debugger = s.debugger
    found: Stops = {}
    met: dict[int, int] = {}
    asked: dict[int, int] = {}

    def name_of(address: int) -> str:
        return debugger._standing.describe(address).lstrip("@&")

    def look(event: Event) -> None:
        if event.kind != "stopped" or event.stopped is None:
            return
        for number in event.stopped.breakpoints:
            met[number] = hit = met.get(number, 0) + 1
            if hit in wanted:
                found[asked[number], hit] = frames()
            if hit >= max(wanted):
                debugger.remove(number)
        debugger.go()

    def frames() -> list[Seen]:
        stop = []
        for frame in debugger.frames()[:FRAMES]:
            names: Names = {}
            known = debugger._standing.frame(frame.index).place is not None
            for name, value in debugger._standing.locals(frame.index) if known else ():
                names[name] = 0, leaves(value, debugger.read, name_of)
            stop.append(Seen(frame.name, frame.line, names))
            if frame.name == "main":
                break
        return stop

    debugger.start()
    debugger.listener = look
    s.run(source, "c")
    points = debugger.set_breakpoints(source, [Breakpoint(line=line) for line in lines])
    marker = debugger.add(Breakpoint(function="marker")).number if hits else 0
    asked[marker] = 0
    asked |= {point.number: line for point, line in zip(points, lines, strict=True)}
    try:
        try:
            s.call("main")
        except UsageError:  # it takes some
            s.run('main(1, (char *[]){(char *)"program", 0})', "c")
    except JitError as error:
        if "exit" not in str(error):
            raise
    debugger.close()
    s.check()
    return {line: point.line for point, line in zip(points, lines, strict=True)}, found


def differences(mine: Stops, theirs: Stops) -> tuple[int, list[str]]:
    """How many values were compared, and what is not the same."""
    wrong: list[str] = []
    count = 0
    for key in theirs.keys() | mine.keys():
        if key not in mine or key not in theirs:
            wrong.append(f"{key}: only {'theirs' if key in theirs else 'mine'}")
            continue
        shapes = [[(f.name, f.line) for f in stop] for stop in (mine[key], theirs[key])]
        if shapes[0] != shapes[1]:
            wrong.append(f"{key}: frames {shapes[0]}, gdb's are {shapes[1]}")
            continue
        for a, b in zip(mine[key], theirs[key], strict=True):
            lengths = {name for name in b.names if name.startswith("__vla_expr")}
            for name in a.names.keys() ^ b.names.keys() - lengths:
                wrong.append(
                    f"{key} {a.name}:{a.line}: {name} is only {'mine' if name in a.names else 'gdb'}"
                )
            for name in a.names.keys() & b.names.keys():
                line, parts = b.names[name]
                if line >= a.line:  # nothing was put there yet
                    continue
                for path, value in parts.items():
                    if value is None:
                        continue
                    here = a.names[name][1].get(path, "missing")
                    count += 1
                    if here != value:
                        wrong.append(
                            f"{key} {a.name}:{a.line}: {name}{path} is {here}, gdb says {value}"
                        )
    return count, wrong


#: A statement that `marked` may begin with a call: an assignment or a call, on a line of its own.
_STATEMENT = re.compile(r"\s+(?!return|if|while|for|switch|sizeof|else|do|goto|case)"
                        r"[A-Za-z_][\w.\[\]]*\s*(?:(?:[-+*/%|&^]|<<|>>)?=[^=]|\().*;$")  # fmt: skip
MARKER = "static volatile int seen_; __attribute__((noinline)) void marker(void) { seen_++; }\n"


def marked(source: str) -> str:
    """A program that calls `marker` in front of some of its statements."""
    found: list[str] = []
    ends = False
    for row in source.split("\n"):
        if ends and _STATEMENT.match(row) and row.count("(") == row.count(")"):
            white = row[: len(row) - len(row.lstrip())]
            row = f"{white}marker(), {row.lstrip()}"
        if row.strip():
            ends = row.rstrip().endswith((";", "{", "}"))
        found.append(row)
    return MARKER + "\n".join(found)


def optimised(source: str, folder: Path, hits: Sequence[int], timeout: float = 100) -> Stops:
    """The stops of an optimised program, as its own debug information has them."""
    build(source, folder, "optimised", "-O2")
    return _gdb(folder / "optimised", "0", (), (), timeout, hits)[1]


def other_says(stops: Stops, key: tuple[int, int], frame: str, name: str, path: str) -> Any:
    """What a variable is at a stop."""
    found = (f for f in stops.get(key, ()) if f.name == frame and name in f.names)
    return next((f.names[name][1].get(path) for f in found), None)


def untrue(mine: Stops, theirs: Stops, other: Stops) -> tuple[int, int, list[str]]:
    """Of optimised code: how many values were shown and compared, how many were not shown, and what
    is wrong, unless the debug information of the `other` program, which the same compiler has
    optimised, says the same to gdb."""
    told = missing = 0
    wrong: list[str] = []
    for key, stop in theirs.items():
        here = [frame for frame in mine.get(key, ()) if frame.name in {f.name for f in stop}]
        whole = stop[-1].name == "main"
        if not whole or [f.name for f in here] != [f.name for f in stop]:
            missing += sum(len(f.names) for f in stop)  # a tail call has taken a frame's place
            continue
        for a, b in zip(here, stop, strict=True):
            for name, (line, parts) in b.names.items():
                for path, value in parts.items() if line < b.line else ():
                    shown = a.names.get(name, (0, {}))[1].get(path)
                    if value is None:
                        continue
                    if shown is None:
                        missing += 1
                        continue
                    told += 1
                    if shown != value and other_says(other, key, a.name, name, path) != shown:
                        wrong.append(
                            f"{key} {a.name}:{b.line}: {name}{path} is {shown}, not {value}"
                        )
    return told, missing, wrong
