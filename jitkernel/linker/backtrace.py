"""Who called the code that stopped.  Start from `unwind`, and `walk`.

Frames of session code are left by their call frame information in the unwind region.  Where there
is none (library frames; functions that cannot throw and so have no table) the stack is searched for
the next word that can be a return address into session code.  It works on a copy of the stack, so
the process it came from may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jitkernel.elf.registers import GENERAL
from jitkernel.linker.cfi import RETURN_ADDRESS, row_at
from jitkernel.linker.instructions import instruction_at
from jitkernel.linker.linker import Linker

#: No more frames than this are looked for, and no wider gap between two of them is believed.
MAX_FRAMES, MAX_FRAME_SIZE = 256, 8 << 20

_PIECE = 1 << 12  # bytes that are searched at once

ReadStack = Callable[[int, int], "bytes | None"]


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame: `pc` is where its code stood, or a return address into it.

    It takes the stack from `start` to `stop`; `saved` are the addresses where it keeps its callers'
    registers, `returns` where the address is to which it returns, 0 where that is not known.
    `certain`: its table says so; else the stack was searched.  `library`: it is not the session's.
    """

    pc: int
    start: int
    stop: int
    returns: int
    saved: Mapping[str, int]
    certain: bool
    library: bool = False


def unwind(registers: Mapping[str, int], read_stack: ReadStack, linker: Linker) -> list[int]:
    """Return addresses into session code, innermost first.

    `registers` holds at least `rip` and `rsp`, as the code stood; `read_stack(address, size)` gives
    bytes of its stack, None where they are not known.  Never raises for what it finds there.
    """
    return [frame.pc for frame in walk(registers, read_stack, linker)[1:] if not frame.library]


def walk(
    registers: Mapping[str, int], read_stack: ReadStack, linker: Linker, most: int = MAX_FRAMES
) -> list[StackFrame]:
    """The frames of the stack, innermost first; the first one's `pc` is where the code stood.

    Arguments as those of `unwind`; not more than `most` are looked for.  Who stands in a slot of a
    breakpoint (breakpoints.py) stands where its instruction is.  Frames of libraries between those
    of the session are one.
    """
    frames: list[StackFrame] = []
    registers = linker.breakpoints.original_registers(registers)
    known = {name: registers[name] for name in GENERAL if name in registers}
    pc, stack = registers["rip"], registers["rsp"]
    exact = True  # pc is where the code stood, not a return address behind its call
    while len(frames) < most:
        begin, outside = stack, 0
        left = _by_table(linker, read_stack, known, stack, pc if exact else pc - 1)
        if left is not None:
            caller, stack, known, saved = left
            frames.append(
                StackFrame(pc, begin, stack, stack - 8, saved, True, not _is_code(linker, pc))
            )
            if _is_return_address(linker, caller):
                pc, exact = caller, False
                continue
            if _is_runtime(linker, caller):
                break
            # The caller is a library: go on searching above this frame.
            begin, outside = stack, caller
        searched = _by_search(linker, read_stack, stack)
        if left is None:
            stop = searched[1] if searched is not None else begin
            frames.append(
                StackFrame(pc, begin, stop, stop - 8 if searched is not None else 0, {}, False,
                           not _is_code(linker, pc))
            )  # fmt: skip
        if searched is None:
            break
        if outside:
            frames.append(StackFrame(outside, begin, searched[1], searched[1] - 8, {}, False, True))
        # What a library or a frame without a table did to the registers is not known.
        pc, stack, known, exact = searched[0], searched[1], {}, False
    return frames


def _by_table(
    linker: Linker, read_stack: ReadStack, known: Mapping[str, int], stack: int, pc: int
) -> tuple[int, int, dict[str, int], dict[str, int]] | None:
    """The content of the frame's table: the return address; the caller's stack pointer and
    registers; where those registers are saved."""
    fde = linker.unwind.find(pc)
    row = row_at(linker.arena.read, fde, pc) if fde else None
    if row is None or row.register >= len(GENERAL):
        return None
    base = stack if row.register == 7 else known.get(GENERAL[row.register])
    if base is None:
        return None
    cfa = base + row.offset
    if not stack < cfa <= stack + MAX_FRAME_SIZE:
        return None
    words: dict[int, int] = {}
    for number, offset in row.saved.items():
        word = _word(read_stack, cfa + offset)
        if word is not None:
            words[number] = word
    if RETURN_ADDRESS not in words:
        return None
    caller = dict(known)
    saved = {}
    for number, name in enumerate(GENERAL):
        if number in words:
            caller[name] = words[number]
            saved[name] = cfa + row.saved[number]
    return words[RETURN_ADDRESS], cfa, caller, saved


def _by_search(linker: Linker, read_stack: ReadStack, stack: int) -> tuple[int, int] | None:
    """The next return address into session code above `stack`, and the stack pointer behind it."""
    arena, at = linker.arena, stack + (-stack & 7)
    low, high = arena.base, arena.base + arena.capacity
    while words := _words(read_stack, at):
        for index, word in enumerate(words):
            if not low <= word < high:
                continue
            if _is_return_address(linker, word):
                return word, at + 8 * index + 8
            if _is_runtime(linker, word) and _follows_call(linker, word):
                return None  # where the runtime called into session code: nothing lies above
        at += 8 * len(words)
    return None


def _words(read_stack: ReadStack, at: int) -> Sequence[int]:
    """The words of a piece of the stack from an address on; none where they are not known."""
    data = read_stack(at, _PIECE - at % _PIECE)
    if data is not None:
        return memoryview(data).cast("Q")
    word = _word(read_stack, at)
    return () if word is None else (word,)


def _is_runtime(linker: Linker, address: int) -> bool:
    region = linker.arena.regions[0]
    return region.start <= address < region.stop


def _is_code(linker: Linker, address: int) -> bool:
    zone = linker.arena.zones["text"]
    return zone.start <= address <= zone.high


def _is_return_address(linker: Linker, address: int) -> bool:
    zone = linker.arena.zones["text"]
    return zone.start + 2 <= address <= zone.high and _follows_call(linker, address)


def _follows_call(linker: Linker, address: int) -> bool:
    """True if a call instruction ends at `address`: e8 rel32, or ff /2 in any of its lengths."""
    start = max(address - 8, linker.arena.base)
    before = linker.breakpoints.original(start, linker.arena.read(start, address - start))
    if len(before) >= 5 and before[-5] == 0xE8:
        return True
    for at in range(max(len(before) - 7, 0), len(before) - 1):  # prefixes do not matter
        if before[at] == 0xFF and before[at + 1] >> 3 & 7 == 2:
            call = instruction_at(before, at, len(before) - 1)
            if call is not None and call.start == at:
                return True
    return False


def _word(read_stack: ReadStack, address: int) -> int | None:
    data = read_stack(address, 8)
    return int.from_bytes(data, "little") if data is not None and len(data) == 8 else None
