"""What became of a call that did not simply return, as shared memory and the exit status tell.

Nothing here asks the process, which may be gone.  User code can write to the shared memory, so
nothing in it is trusted: any 64-bit value decodes.  Start from `record_of`.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Sequence

from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.records import FaultRecord, Outcome, signal_name

_RECORD = struct.Struct(f"<{len(abi.RECORD)}Q")
_CAUSES = tuple(abi.CAUSES.values())
#: si_code of what kill, sigqueue, mq_notify and tgkill send; all have the sender's number.
_SENT, _SI_TIMER = (0, -1, -3, -6), -2
_PAGE_FAULT, _WRITE, _FETCH = 14, 2, 16  # x86: trap number, error code bits

LOST = (
    "the executor was started again: memory from malloc, open files and threads are lost; "
    "functions and globals in the arena are as they were"
)


def record_of(
    control: ControlBlock, seq: int, cause: str, generation: int
) -> tuple[str, FaultRecord | None]:
    """Kind and fault record of a call; None where nothing was recorded."""
    words = _RECORD.unpack(control.read(abi.RECORD_AT, _RECORD.size))
    word = dict(zip(abi.RECORD, words, strict=True))
    if word["seq"] != seq:
        return "died", None
    stack = control.read(abi.STACK_AT, abi.STACK_SIZE)
    number = word["signal"]
    code = _signed(word["code"])
    error, trap = word["error"], word["trap"]
    access = ""
    # Codes up to 0 are signals that somebody sent: then the trap is an old one.
    if trap == _PAGE_FAULT and code > 0 and number in (signal.SIGSEGV, signal.SIGBUS):
        access = "execute" if error & _FETCH else "write" if error & _WRITE else "read"
    index = word["kind"]
    kind = abi.KINDS[index] if 0 < index < len(abi.KINDS) else "fault"
    index = word["cause"]
    sent = ""
    if kind == "fault" and not index:  # else a function of the runtime noted it: no signal
        sent = _sender(code, word["address"], control["pid"])
    return kind, FaultRecord(
        signal="" if kind != "fault" or not number else signal_name(number),
        code=code,
        address=0 if sent else word["address"],
        pc=word["pc"],
        sp=word["sp"],
        registers={name: word[f"reg_{name}"] for name in abi.REGISTERS},
        stack=stack[: min(word["stack_size"], abi.STACK_SIZE)],
        stack_top=word["stack_top"],
        status=_signed(word["status"]),
        stub=word["stub"],
        caller=word["caller"],
        thread="other" if word["thread"] else "cell",
        access=access,
        library=bool(word["library"]),
        cause=cause or (_CAUSES[index] if index < len(_CAUSES) else ""),
        generation=generation,
        sent=sent,
    )


def process_ended(
    control: ControlBlock, seq: int, status: int, cause: str | None, generation: int
) -> Outcome:
    """The outcome of the call whose process ended with `status`; `cause`: of our wish, if it was
    one."""
    kind, record = record_of(control, seq, cause or "", generation)
    done = control["progress"]
    how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended with {status}"
    if status == abi.NO_SOCKET:
        how = "lost its descriptors, which the cell closed"
    if control["done_seq"] == seq and not control["done_stopped"]:
        return Outcome("ok", respawned=True, lost=f"the executor {how}; {LOST}")
    started = control["seq"] == seq
    if cause is not None and status == -signal.SIGKILL:
        kind = "interrupted"
        record = record or FaultRecord(cause=cause, generation=generation)
    elif record is None and status >= 0 and started:
        kind, record = "exit", FaultRecord(cause="exit", status=status, generation=generation)
    if record is not None:
        return Outcome(kind, record=record, respawned=True, lost=LOST, done=done)
    lost = f"the executor {how}; {LOST}"
    return Outcome("died", respawned=True, lost=lost, started=started, done=done)


def left_library(record: FaultRecord, codes: Sequence[range]) -> bool:
    """True if the stack may hold frames of a library: it may own locks that are never freed."""
    if not codes:
        return True
    low, high = min(c.start for c in codes), max(c.stop for c in codes)
    words = struct.unpack(f"<{len(record.stack) // 8}Q", record.stack[: len(record.stack) & -8])
    return any(low <= w < high and any(w in c for c in codes) for w in words)


def _signed(word: int) -> int:
    """The C int in a word's low half."""
    return (word & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


def _sender(code: int, payload: int, pid: int) -> str:
    """The sender of a signal with this si_code; "" for a positive one, the kernel's own.

    `payload` is the word of siginfo_t that has a fault's address, else the sender's process in its
    low half; `pid` is the program's own.  Source: sigaction(2), the union of siginfo_t.
    """
    if code > 0:
        return ""
    if code in _SENT:
        sender = _signed(payload)
        return "the program itself" if sender == pid else f"process {sender}"
    return "a timer" if code == _SI_TIMER else "the system"
