"""`%break`, `%breaks`, `%debug` and the prompt in a kernel, as a client without a panel sees them."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel.kernel.magics import MAGICS
from jitkernel.kernel.magics.debugging import LOOKS
from jitkernel.kernel.standing import has_code
from tests.kernel.conftest import ROOT, Kernel
from tests.seeds import few

pytest.importorskip("ziglang")

C = """%%c
#include <stdio.h>
int sq(int x) {
  int y = x * x;
  printf("y %d\\n", y);
  return y;
}
int sum(int n) {
  int s = 0;
  for (int i = 0; i < n; i++)
    s += sq(i);
  return s;
}
"""
IR = """define i32 @f(i32 %x) {
  %y = add i32 %x, 1
  ret i32 %y
}
"""


class Client:
    """A client that types lines at prompts; with `stop` in place of one it presses its button."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def run(self, source: str, *lines: str, stdin: bool = True) -> tuple[dict, str]:
        """The reply to a cell, and all that was shown, the prompts among it.

        Prompts and output come by different sockets.  A prompt is shown once a request that was
        sent when it came is over by the socket of the output: what was said before it is there.
        """
        client, rest, shown = self.kernel.client, iter(lines), list[str]()
        identity = client.execute(source, allow_stdin=stdin)
        reply, idle, prompt, mark = None, False, "", ""
        while reply is None or not idle:
            try:
                message = client.get_iopub_msg(timeout=0.02)
                content, kind = message["content"], message["msg_type"]
                ended = kind == "status" and content["execution_state"] == "idle"
                if ended and mark and message["parent_header"].get("msg_id") == mark:
                    line = next(rest, None)
                    assert line is not None, "".join(shown)
                    shown.append(f"{prompt}{line}\n")
                    mark = ""
                    if line == "stop":
                        self.kernel.manager.interrupt_kernel()
                    else:
                        client.input(line)
                if message["parent_header"].get("msg_id") != identity:
                    continue
                if kind == "stream":
                    shown.append(content["text"])
                elif kind in ("display_data", "execute_result"):
                    shown.append(content["data"]["text/plain"] + "\n")
                elif kind == "error":
                    shown.append(content["evalue"] + "\n")
                idle |= ended
                continue
            except queue.Empty:
                pass
            try:
                if not mark:
                    prompt = client.get_stdin_msg(timeout=0.02)["content"]["prompt"]
                    request = client.session.msg("kernel_info_request", {})
                    mark = request["header"]["msg_id"]
                    client.control_channel.send(request)
                    continue
            except queue.Empty:
                pass
            try:
                message = client.get_shell_msg(timeout=0.02)
                if message["parent_header"].get("msg_id") == identity:
                    reply = message["content"]
            except queue.Empty:
                pass
        text = "".join(shown)
        assert next(rest, None) is None, text
        return reply, text

    def ok(self, source: str, *lines: str, stdin: bool = True) -> str:
        reply, text = self.run(source, *lines, stdin=stdin)
        assert reply["status"] == "ok", text
        return text

    def fails(self, source: str, *lines: str) -> str:
        reply, text = self.run(source, *lines)
        assert reply["status"] == "error", text
        return text


@pytest.fixture
def client(kernel: Kernel) -> Iterator[Client]:
    kernel.ok("%reset -f")
    made = Client(kernel)
    yield made
    made.ok("%debug off")


def test_breakpoints_are_set_listed_and_removed(client: Client) -> None:
    assert "no breakpoints: %break f" in client.ok("%breaks")
    number = re.search(r"cell (\d+): int sq", client.ok(C))
    assert number is not None
    cell = number[1]
    assert f"breakpoint 1: cell {cell}, line 4: int y = x * x;" in client.ok("%break 4 if x == 2")
    assert "breakpoint 2: sum" in client.ok("%break sum --hits '>= 2'")
    assert f"cell {cell}, line 12: return s;" in client.ok(f"%break {cell}:12 --once")
    assert "breakpoint 4: sq" in client.ok("%break sq --log 'x is {x}'")
    shown = client.ok("%breaks")
    assert re.search(rf"1  cell {cell}, line 4 +int y = x \* x; +if x == 2 +0  looked for", shown)
    assert re.search(r"2  sum +hits >= 2", shown) and 'logs "x is {x}"' in shown
    shown = client.ok("@sum(3)", "p x", "c", "p s", "c")
    assert re.search(r"x is 0\n.*x is 1\n.*x is 2\n", shown, re.S)
    assert "(int) 2\n" in shown and "(int) 5\n" in shown and shown.endswith("i32 5\n")
    shown = client.ok("%breaks")
    assert re.search(r"1  .* 1  yes\n", shown) and "\n     3  " not in shown
    client.ok("%break -d 1")
    assert client.fails("%break --delete 9").startswith("there is no breakpoint 9; there are: 2, 4")
    client.ok("%break --delete all")
    assert "no breakpoints" in client.ok("%breaks") and "i32 5" in client.ok("@sum(3)")


def test_a_breakpoint_in_the_cell_that_sets_it(client: Client) -> None:
    client.ok(C)
    source = "%%c\n%break 4\nint k = 3;\nk += sq(2);\nk"
    shown = client.ok(source, "p k", "s", "bt", "finish", "n", "p k", "c")
    assert shown.count("breakpoint 1: cell") == 2 and "sq, cell" in shown
    assert "4  k += sq(2);" in shown and "5  k\n" in shown and shown.endswith("(int) 7\n")
    shown = client.ok("%break 3\n%a = add i32 4, 5\n%b = add i32 %a, 5", "p %a", "p %b", "n", "c")
    assert "i32 9\n" in shown and "<not yet>" in shown and shown.endswith("i32 14\n")
    shown = client.ok(f"%break @f\n{IR}@f(i32 4)", "info locals", "l", "c")
    assert "no cell defines @f yet" in shown and "%x = i32 4\n%y = <not yet>" in shown
    assert "=>    3    %y = add i32 %x, 1" in shown and shown.endswith("i32 5\n")


def test_the_program_s_output_comes_before_the_stop(client: Client) -> None:
    client.ok(C)
    client.ok("%break 6")
    shown = client.ok("@sq(3)", "c")
    assert shown.startswith("y 9\nbreakpoint 1: sq")


def test_views_at_the_prompt_mark_the_place(client: Client) -> None:
    client.ok(C)
    before = client.ok("%asm sq")
    client.ok("%break sq")
    shown = client.ok(
        "@sum(1)", "%asm", "%asm sum", "%stack", "%cfg", "%mir --final", "%memory", "%ir", "%break?",
        "%breaks", "%debug", "%symbols", "!echo from the shell", "c",
    )  # fmt: skip
    assert re.search(r"int sq\(int x\).*, as it is debugged\n", shown)
    assert re.search(r"^=> 4   \+\d+ .* mov     eax", shown, re.M)
    assert re.search(r"^-> 11  .* add     eax", shown, re.M)  # where it returns to
    assert re.search(r"Stack where a cell is: .*\n.*\n=> #0 +sq\+\d+, cell \d+ +4  int y", shown)
    for words in ("Control flow of sq", "Machine IR of sq", "Memory (bytes)", "define i32 @sq",
                  "usage: %break", "Breakpoints", "the program stands", "from the shell"):  # fmt: skip
        assert words in shown
    assert client.ok("%asm sq") == before  # its own code again, byte for byte


def test_views_are_of_the_frame_that_is_looked_at(client: Client) -> None:
    client.ok(C)
    client.ok("%break sq")
    shown = client.ok("@sum(1)", "%mir --final", "u", "%asm", "%cfg", "%break 3", "c")
    assert re.search(r"Machine IR of sq, .*as it is debugged\n(?s:.*)\n=> +\S", shown)
    assert re.search(r"^int sum\(int n\)(?s:.*)^=> 11  .* add     eax", shown, re.M)
    assert re.search(r"^Control flow of sum(?s:.*)^=> %for\.body:", shown, re.M)
    assert re.search(r"^breakpoint 2: cell \d+, line 3", shown, re.M)  # of the cell it stands in


@pytest.mark.parametrize(
    "line", ["%undo", "%evict sq", "%reset -f", "%save x.jks", "%timeit @sq(1)"]
)
def test_what_would_change_the_program_is_refused(client: Client, line: str) -> None:
    client.ok(C)
    client.ok("%break sq")
    shown = client.ok("@sq(3)", line, "p x", "c")
    name = line.split()[0]
    assert f"{name} is not done while the program stands: `c` goes on, `q` ends the cell" in shown
    assert "(int) 3" in shown and shown.endswith("i32 9\n")


@pytest.mark.parametrize("line", ["q", "stop", "\x04"])
def test_the_cell_is_ended_at_the_prompt(client: Client, line: str) -> None:
    client.ok(C)
    client.ok("%break sq")
    reply, shown = client.run("@sum(3)", line)
    assert reply["status"] == "error" and reply["ename"] == "Interrupted", shown
    assert "int y = x * x;" in "".join(reply["traceback"])  # where it was ended
    assert "y 0" not in shown
    assert "i32 9" in client.ok("@sq(3)", "c")


def test_the_debugger_is_turned_off_at_the_prompt(client: Client) -> None:
    client.ok(C)
    client.ok("%break sq")
    shown = client.ok("@sum(3)", "%debug off")
    assert "the debugger is off" in shown and shown.endswith("i32 5\n")
    assert "no breakpoints" in client.ok("%breaks") and "(debug)" not in client.ok("@sum(3)")


def test_where_the_client_has_no_input_box_it_goes_on(client: Client) -> None:
    client.ok(C)
    client.ok("%break sq")
    shown = client.ok("@sum(2)", stdin=False)
    assert shown.count("breakpoint 1: sq") == 2 and "  x = 0\n" in shown
    assert shown.count("nobody can be asked here: it goes on") == 1 and shown.endswith("i32 1\n")


def test_a_fault_and_what_it_has_left(client: Client) -> None:
    client.ok("%%c\nint bad(int *p) {\n  int k = 1;\n  return k + *p;\n}")
    assert "debugger is off" in client.ok("%debug")
    reply, _ = client.run("@bad(null)")
    assert reply["ename"] == "Fault"
    shown = client.ok("%debug", "bt", "n", "x/1xg $rsp", "q")
    assert "=> #0  bad, cell" in shown and "the call has ended: nothing goes on here" in shown
    assert "=> #0  bad, cell" in client.ok("%debug", stdin=False)
    assert "it stops at faults" in client.ok("%debug --faults")
    client.ok("%break bad")
    reply, shown = client.run("@bad(null)", "c", "bt", "p k", "c")
    assert "SIGSEGV: segmentation fault at 0x0: bad" in shown and "(int) 1\n" in shown
    assert reply["ename"] == "Fault" and "line 4: return k + *p;" in "".join(reply["traceback"])
    shown = client.ok("%%c\nint five = 5;\nbad(0)", "c", "p = &five", "c")
    assert "p = &five" in shown and shown.endswith("(int) 6\n")
    assert "not at faults" in client.ok("%debug on")


def test_code_to_be_debugged_may_be_optimised(client: Client) -> None:
    client.ok(C)
    client.ok(IR)
    assert "code to be debugged is optimised" in client.ok("%debug -O2")
    client.ok("%break sum")
    client.ok("%break @f")
    shown = client.ok("@sum(3)", "p n", "c")
    assert "(optimised)" in shown and "(debug -O2) " in shown
    assert "(int) 3\n" in shown or "<optimised out>" in shown
    shown = client.ok("@f(i32 3)", "info locals", "info registers rdi", "c")
    assert "lines and registers are known, and no values" in shown and "rdi " in shown
    assert "optimised" not in client.ok("%debug -O0")
    shown = client.ok("@f(i32 3)", "info locals", "c")
    assert "(debug) " in shown and "%x = i32 3" in shown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%break 99", "there is no line 99 in it"),
        ("%break a b", "A condition begins with if: %break a if b"),
        ("%break 3 if i == 1 --once", "options come before the condition"),
        ("%break 9999:1", "there is no cell 9999"),
        ("%break sq --hits many", "'many' is no count of hits: write 5, >= 5 or % 5"),
        ("%break 3 if", "behind `if` a condition is missing"),
        ("%break -d two", "takes the number of a breakpoint, or all, not 'two'"),
        ("%debug off --faults", "leave --faults out"),
        ("%debug maybe", "is one of on, off"),
        ("%debug off -O2", "leave -O2 out"),
        ("%debug -O1", "is one of 0, 2"),
        ("%pdb", "%debug is the debugger"),
    ],
)
def test_wrong_lines(client: Client, line: str, words: str) -> None:
    client.ok(C)
    assert words in client.fails(line)
    assert "no breakpoints" in client.ok("%breaks")


def test_a_wrong_condition_stops_and_says_so(client: Client) -> None:
    client.ok(C)
    client.ok("%break sq if nosuch == 3")
    shown = client.ok("@sq(3)", "c")
    assert "condition `nosuch == 3`: nothing here is called nosuch" in shown
    assert "breakpoint 1: sq" in shown


def test_a_panel_that_opens_and_closes_leaves_the_prompt(client: Client) -> None:
    """The control channel of the Debug Adapter Protocol, as JupyterLab uses it."""
    control, kernel = client.kernel.client, client.kernel

    def ask(command: str, **arguments: object) -> dict:
        content = {"type": "request", "seq": 1, "command": command, "arguments": arguments}
        message = control.session.msg("debug_request", content)
        control.control_channel.send(message)
        while True:
            reply = control.get_control_msg(timeout=60)
            if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
                assert reply["content"]["success"], reply
                return dict(reply["content"]["body"])

    kernel.ok(C)
    client.ok("%break 4 if x == 1")
    ask("initialize", clientID="jupyterlab")
    path = ask("dumpCell", code=C)["sourcePath"]
    ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": 4}], sourceModified=False)
    assert ask("evaluate", expression="%breaks", context="repl")["result"].count("if x == 1") == 1
    said = ask("evaluate", expression="%break sum if n == 77", context="repl")["result"]
    assert re.match(r"breakpoint \d+: sum", said)
    ask("disconnect")
    assert re.search(r"1  .*if x == 1", client.ok("%breaks"))  # kept, as Lab sends no conditions
    assert client.ok("@sum(3)", "p x", "c").count("(debug)") == 2


def test_magics_at_the_prompt_are_magics() -> None:
    names = {name for magic in MAGICS for name in (magic.name, *magic.aliases)}
    assert names >= LOOKS


def test_what_has_code() -> None:
    assert (
        has_code("%break 3\nint x;") and has_code("%x = add i32 1, 2") and has_code("%%c\nint x;")
    )
    assert (
        not has_code("%break 3") and not has_code("\n; words\n!ls\n%cells") and not has_code("%%c")
    )


def test_tab_offers_functions(client: Client) -> None:
    client.ok(C)
    reply = client.kernel.client.complete("%break s", 8, reply=True, timeout=60)["content"]
    assert {"sq", "sum"} <= set(reply["matches"])
    reply = client.kernel.client.complete("%debug o", 8, reply=True, timeout=60)["content"]
    assert reply["matches"] == ["on", "off"]


def test_the_page_says_what_is_shown() -> None:
    """The example of docs/debugger.md, in a kernel of its own: its numbers are those of the page."""
    page = (ROOT / "docs" / "debugger.md").read_text()
    (cell,), (said,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("c", "text"))
    kernel = Kernel("--JITKernel.default_language=c")
    try:
        client = Client(kernel)
        client.ok(cell)
        client.ok("%break 4 if i == 2")
        lines = re.findall(r"^\(debug\) (.*)$", said, re.M)
        assert client.ok("sum(3)", *lines) == said
    finally:
        kernel.stop()


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells = [C.partition("\n")[2].replace('  printf("y %d\\n", y);\n', ""), "%break sq", "sq(3)"]
    content = {
        "cells": [
            {"cell_type": "code", "id": f"c{n}", "source": source, "metadata": {}, "outputs": [],
             "execution_count": None}
            for n, source in enumerate(cells)
        ],
        # `language` is not required: nbformat's schema.
        "metadata": {"kernelspec": {"name": "jitkernel-c", "display_name": "C"}},
        "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    path = tmp_path / "it.ipynb"
    path.write_text(json.dumps(content))
    return path


def _run(notebook: Path) -> list[str]:
    return [sys.executable, "-m", "jitkernel", "run", str(notebook)]


@pytest.mark.parametrize("line", few(["^C", "c", "^D"], 1))
def test_a_notebook_that_is_run_in_a_terminal_asks(notebook: Path, line: str) -> None:
    pexpect = pytest.importorskip("pexpect")
    command, *arguments = _run(notebook)
    child = pexpect.spawn(command, arguments, encoding="utf-8", timeout=60, cwd=str(ROOT))
    try:
        child.expect_exact("   3    int y = x * x;\r\n(debug) ")
        child.sendline("%asm")  # views are seen at once
        child.expect("=> 3 .*\r\n(?s:.*)" + re.escape("(debug) "))
        {"^C": child.sendintr, "^D": child.sendeof}.get(line, lambda: child.sendline(line))()
        child.expect_exact("(int) 9" if line == "c" else "Interrupted: the cell was interrupted")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == (line != "c")
    finally:
        child.close(force=True)


def test_a_notebook_that_nobody_looks_at_goes_on(notebook: Path) -> None:
    done = subprocess.run(
        _run(notebook), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("(int) 9\n"), done.stderr
    assert "nobody can be asked here: it goes on" in done.stdout
