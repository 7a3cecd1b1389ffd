"""Who called the code that stopped.  Start from `unwind`.

Frames of session code are left by their call frame information in the unwind region.  Where there
is none (library frames; functions that cannot throw and so have no table) the stack is searched for
the next word that can be a return address into session code.  It works on a copy of the stack, so
the process it came from may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jitkernel.linker.cfi import REGISTER_NAMES, RETURN_ADDRESS, row_at
from jitkernel.linker.linker import Linker

__all__ = ["unwind"]

#: No more frames than this are looked for, and no wider gap between two of them is believed.
MAX_FRAMES, MAX_FRAME_SIZE = 256, 8 << 20

ReadStack = Callable[[int, int], "bytes | None"]


def unwind(registers: Mapping[str, int], read_stack: ReadStack, linker: Linker) -> list[int]:
    """Return addresses into session code, innermost first.

    `registers` holds at least `rip` and `rsp`, as the code stood; `read_stack(address, size)` gives
    bytes of its stack, None where they are not known.  Never raises for what it finds there.
    """
    found: list[int] = []
    known = {name: registers[name] for name in REGISTER_NAMES if name in registers}
    pc, stack = registers["rip"], registers["rsp"]
    exact = True  # pc is where the code stood, not a return address behind its call
    while len(found) < MAX_FRAMES:
        caller = _by_table(linker, read_stack, known, stack, pc if exact else pc - 1)
        if caller is None or not _is_return_address(linker, caller[0]):
            if caller is not None:  # the caller is a library: go on searching above this frame
                known, stack = caller[2], caller[1]
                if _is_runtime(linker, caller[0]):
                    break
            searched = _by_search(linker, read_stack, stack)
            if searched is None:
                break
            # What a library or a frame without a table did to the registers is not known.
            caller = (*searched, {})
        pc, stack, known = caller
        found.append(pc)
        exact = False
    return found


def _by_table(
    linker: Linker, read_stack: ReadStack, known: Mapping[str, int], stack: int, pc: int
) -> tuple[int, int, dict[str, int]] | None:
    """The caller's return address, stack pointer and registers, as the frame's table has them."""
    fde = linker.unwind.find(pc)
    row = row_at(linker.arena.read, fde, pc) if fde else None
    if row is None or row.register >= len(REGISTER_NAMES):
        return None
    base = stack if row.register == 7 else known.get(REGISTER_NAMES[row.register])
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
    for number, name in enumerate(REGISTER_NAMES):
        if number in words:
            caller[name] = words[number]
    return words[RETURN_ADDRESS], cfa, caller


def _by_search(linker: Linker, read_stack: ReadStack, stack: int) -> tuple[int, int] | None:
    """The next return address into session code above `stack`, and the stack pointer behind it."""
    at = stack + (-stack & 7)
    while (word := _word(read_stack, at)) is not None:
        at += 8
        if _is_return_address(linker, word):
            return word, at
        if _is_runtime(linker, word) and _follows_call(linker, word):
            return None  # where the runtime called into session code: nothing of it lies above
    return None


def _is_runtime(linker: Linker, address: int) -> bool:
    region = linker.arena.regions[0]
    return region.start <= address < region.stop


def _is_return_address(linker: Linker, address: int) -> bool:
    zone = linker.arena.zones["text"]
    return zone.start + 2 <= address <= zone.high and _follows_call(linker, address)


def _follows_call(linker: Linker, address: int) -> bool:
    """Whether a call instruction ends at `address`: e8 rel32, or ff /2 in any of its lengths."""
    start = max(address - 8, linker.arena.base)
    before = linker.arena.read(start, address - start)
    if len(before) >= 5 and before[-5] == 0xE8:
        return True
    for length in range(2, min(len(before), 8)):  # opcode and operand; prefixes do not matter
        opcode, modrm = before[-length], before[1 - length]
        sib = before[2 - length] if length > 2 else 0
        if opcode == 0xFF and modrm >> 3 & 7 == 2 and _operand_size(modrm, sib) == length - 1:
            return True
    return False


def _operand_size(modrm: int, sib: int) -> int:
    """Bytes of a ModRM operand: ModRM, SIB and displacement (Intel SDM volume 2, 2.1.5)."""
    mode, rm = modrm >> 6, modrm & 7
    if mode == 3:
        return 1
    size = 1 + (rm == 4)
    if mode == 1:
        return size + 1
    if mode == 2:
        return size + 4
    return size + 4 if rm == 5 or (rm == 4 and sib & 7 == 5) else size


def _word(read_stack: ReadStack, address: int) -> int | None:
    data = read_stack(address, 8)
    return int.from_bytes(data, "little") if data is not None and len(data) == 8 else None
