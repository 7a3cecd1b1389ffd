"""The numbers that Python and the native runtime share, against those that the system has."""

from __future__ import annotations

import errno
import mmap
import os
import re
import select
import signal
import socket
from pathlib import Path

import pytest

from jitkernel.executor import abi, runtime
from jitkernel.syscalls import SYS

NATIVE = Path(runtime.__file__).with_name("native")
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def test_the_numbers_are_the_system_s() -> None:
    for module in (signal, errno, select, socket, mmap, os):
        for name, number in abi.NAMES.items():
            assert number == getattr(module, name, number), (module.__name__, name)
    assert abi.MSG_NOSIGNAL_DONTWAIT == socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
    assert abi.PROT_READ_EXEC == mmap.PROT_READ | mmap.PROT_EXEC
    assert signal.SIGRTMIN < abi.SIGINTERRUPT < signal.SIGRTMAX


@pytest.mark.skipif(not HEADER.exists(), reason="the headers of the C library are not installed")
def test_the_system_calls_are_this_machine_s() -> None:
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text()))
    assert {name: int(numbers[name]) for name in SYS} == SYS


def test_the_runtime_has_names_for_all_of_them() -> None:
    """No system call, signal, cause or message has a raw number in the native parts."""
    raw = re.compile(
        r"@sys\(i64 \d|@handle\(i64 \d|@record\(i64 \d|@reply\(i64 \d"
        r"|%(?:cause|signal|kind|op), (?:label %\w+ \[ i64 )?\d|mov esi, \d"
        r"|ends \w+, \d|(?:i8, |@word\()ptr %(?:info|context), i64 \d"
    )
    for part in NATIVE.glob("*.[ls]*"):
        assert not raw.search(re.sub("[;#].*", "", part.read_text(encoding="ascii"))), part.name
    text = "".join(part.read_text(encoding="ascii") for part in NATIVE.glob("*.[ls]*"))
    used = set(re.findall(r"\$([A-Z]\w*)", text)) - {"NAME"}
    assert used <= set(abi.NAMES)
