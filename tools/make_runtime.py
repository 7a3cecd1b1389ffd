"""Compiles the executor's runtime: `python tools/make_runtime.py`, after a change in
`jitkernel/executor/native`; and the thunks that sessions have in common.

Writes objects beside the runtime's text, and `runtime.json`: what they were made from and by.  The
code is for any x86-64, the runtime below 2 GiB; it looks for itself what the processor has.
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
from jitkernel.executor.passing import BLOCKS  # noqa: E402
from jitkernel.executor.runtime import made_of, runtime_ir  # noqa: E402
from jitkernel.session.run.thunks import common  # noqa: E402
from jitkernel.settings import SessionSettings  # noqa: E402

NATIVE = ROOT / "jitkernel" / "executor" / "native"


def requests() -> dict[str, tuple[int, Request]]:
    """By name what is compiled, and the checksum of what that is made of."""
    options = Options(opt_level=1, cpu="x86-64", internal=True)
    found = {"runtime": (made_of(), Request(runtime_ir(), options, label="the runtime"))}
    for block in BLOCKS:
        for result in ("i64", "double"):
            name, request = common(block, result)
            found[name] = crc32(request.source.encode()), request
    return found


def make() -> tuple[dict[str, bytes], str]:
    """The objects by name, and the version of LLVM that made them."""
    with CompilerPool(SessionSettings(spare=False)) as pool:
        made = {name: pool.compile(request).object for name, (_, request) in requests().items()}
        return made, pool.identity().llvm


if __name__ == "__main__":
    objects, llvm = make()
    facts: dict[str, object] = {"llvm": llvm}
    for name, (checksum, _) in requests().items():
        facts[name] = {"made of": checksum, "object": crc32(objects[name])}
        (NATIVE / f"{name}.o").write_bytes(objects[name])
        print(f"{NATIVE / name}.o: {len(objects[name])} bytes, by LLVM {llvm}")
    (NATIVE / "runtime.json").write_text(json.dumps(facts, indent=1) + "\n")
