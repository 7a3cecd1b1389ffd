"""Compiles the executor's runtime: `python tools/make_runtime.py`, after a change in
`jitkernel/executor/native`.

Writes `runtime.o` and `runtime.json` beside the text: what they were made from and by.  The code is
for any x86-64, below 2 GiB; it looks for itself what the processor has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jitkernel.compiler.pool import CompilerPool  # noqa: E402
from jitkernel.compiler.records import Options, Request  # noqa: E402
from jitkernel.executor.runtime import made_of, runtime_ir  # noqa: E402
from jitkernel.settings import SessionSettings  # noqa: E402

NATIVE = ROOT / "jitkernel" / "executor" / "native"


def make(text: str) -> tuple[bytes, str]:
    """The object of a text, and the version of LLVM that made it."""
    options = Options(opt_level=1, cpu="x86-64", internal=True)
    with CompilerPool(SessionSettings(spare=False)) as pool:
        made = pool.compile(Request(text, options, label="the runtime"))
        return made.object, pool.identity().llvm


if __name__ == "__main__":
    code, llvm = make(runtime_ir())
    facts = {"made of": made_of(), "object": crc32(code), "llvm": llvm}
    (NATIVE / "runtime.o").write_bytes(code)
    (NATIVE / "runtime.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{NATIVE / 'runtime.o'}: {len(code)} bytes, by LLVM {llvm}")
