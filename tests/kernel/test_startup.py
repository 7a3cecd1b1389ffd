"""From starting the kernel to the first result, against ipykernel in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest
from jupyter_client.manager import KernelManager

CELLS = {
    "python3": "40 + 2",
    "jitkernel": "define i32 @f() {\n  ret i32 42\n}\n@f()",
}
BAR = 1.3


def first_result(name: str) -> float:
    """Seconds, through jupyter_client."""
    manager = KernelManager(kernel_name=name)
    start = time.perf_counter()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive(
            CELLS[name], timeout=60, output_hook=lambda message: None
        )
        assert reply["content"]["status"] == "ok"
        return time.perf_counter() - start
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_the_kernel_opens_its_sockets_before_it_imports_the_session() -> None:
    """What `EarlySession` does meanwhile would otherwise be done before."""
    code = (
        "import sys, jitkernel.kernel.early, jitkernel.kernel.app\n"
        "print([m for m in sys.modules if m.startswith(('jitkernel.session', 'jitkernel.linker',"
        " 'jitkernel.languages', 'jitkernel.compiler.', 'jitkernel.executor'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_start_to_first_result() -> None:
    for name in CELLS:
        first_result(name)  # compiles the .pyc files
    ratios = [first_result("jitkernel") / first_result("python3") for _ in range(7)]
    assert statistics.median(ratios) <= BAR, ratios
