"""The extension in a Python kernel (messages, stop button, input), in nbclient, and on a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator

import pexpect
import psutil
import pytest

from jitkernel.kernel.client import kernel_manager, outputs_text
from jitkernel.kernel.displays import plain
from tests.kernel.conftest import Kernel, children, gone_within
from tests.processes import computes

SQ = "%%llvm\ndefine i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n"
SPIN = "%%llvm\ndefine void @spin() {\n  br label %l\nl:\n  br label %l\n}\n"
ASK = '%%c\n#include <stdio.h>\nint ask(void) { int n; printf("n? "); fflush(stdout); return scanf("%d", &n) == 1 ? n : -1; }'


class PythonKernel(Kernel):
    """ipykernel as a client starts it."""

    def __init__(self) -> None:
        self.begin(kernel_manager("python3", []))

    def sent(self, source: str, until: str) -> str:
        """Send a cell and wait for a word of its output; its message id."""
        identity = self.start(source)
        self.wait_output(identity, until)
        return identity

    def start(self, source: str, **how) -> str:
        """Send a cell and do not wait; its message id.  Where it fails, the next is not aborted."""
        return super().start(source, stop_on_error=False, **how)


@pytest.fixture(scope="module")
def running(home) -> Iterator[PythonKernel]:
    kernel = PythonKernel()
    kernel.ok("%load_ext jitkernel")
    yield kernel
    processes = kernel.processes
    kernel.stop()
    assert not gone_within(processes, 60)


@pytest.fixture
def kernel(running) -> PythonKernel:
    running.ok("import jitkernel; jitkernel.session.reset()")
    return running


def test_displays_are_those_of_the_kernel(kernel) -> None:
    reply, outputs = kernel.run(SQ + "@sq(-3)\n%r = sub i32 0, 9")
    assert reply["status"] == "ok"
    texts = [o["data"]["text/plain"] for o in outputs if o["output_type"] == "display_data"]
    assert [text.partition(" ")[0] for text in texts] == ["cell", "@sq(-3)", "in"]
    (result,) = [o for o in outputs if o["output_type"] == "execute_result"]
    assert result["data"]["text/plain"] == "i32 -9" and "0xfffffff7" in result["data"]["text/html"]
    assert result["execution_count"] == reply["execution_count"]
    _, outputs = kernel.run("%jit asm @sq")
    assert "imul" in outputs[0]["data"]["text/plain"] and "text/html" in outputs[0]["data"]


def test_an_error_is_one_message_with_our_words(kernel) -> None:
    reply, outputs = kernel.run("%%llvm\n%v = load volatile i64, ptr null")
    (error,) = outputs
    assert (error["ename"], reply["ename"]) == ("Fault", "Fault")
    text = plain("\n".join(error["traceback"]))
    assert text.startswith("Fault: read of address 0") and "Kept:" in text
    assert "line 2" in text and "Traceback" not in text


def test_output_comes_while_a_cell_runs_and_the_stop_button_ends_it(kernel) -> None:
    kernel.ok(SQ)
    kernel.ok(SPIN)
    identity = kernel.sent('%%llvm\n@puts("before")\n@fflush(null)\n@spin()', "before")
    kernel.manager.interrupt_kernel()
    reply = kernel.reply_to(identity)
    assert (reply["status"], reply["ename"]) == ("error", "Interrupted")
    assert "25" in kernel.ok("sq(5)")


def test_the_stop_button_ends_a_call_from_python_with_keyboardinterrupt(kernel) -> None:
    kernel.ok(SQ)
    kernel.ok(SPIN)
    source = "print('before', flush=True)\ntry:\n    spin()\nexcept Exception:\n    print('caught')"
    identity = kernel.sent(source, "before")
    assert computes(kernel.pid)
    kernel.manager.interrupt_kernel()
    reply = kernel.reply_to(identity)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    text = plain("\n".join(reply["traceback"]))
    assert "spin()" in text and "/jitkernel/" not in text and len(text.splitlines()) < 15
    assert "@spin" in text  # where it was
    assert "25" in kernel.ok("sq(5)")


def test_a_stopped_shell_command_leaves_the_session_in_order(kernel) -> None:
    identity = kernel.sent("%%llvm\n!echo before; sleep 60", "before")
    kernel.manager.interrupt_kernel()
    assert kernel.reply_to(identity)["ename"] == "Interrupted"
    assert "i32 42" in kernel.ok("%%llvm\n%x = add i32 40, 2")


def test_input_is_asked_through_the_client(kernel) -> None:
    kernel.ok(ASK)
    for source in ("ask()", "%%c\nask()"):
        identity = kernel.start(source, allow_stdin=True)
        request = kernel.client.get_stdin_msg(timeout=60)
        assert request["content"]["prompt"] == ""
        kernel.client.input("41")
        assert kernel.reply_to(identity)["status"] == "ok"


def test_the_stop_button_ends_waiting_for_input(kernel) -> None:
    kernel.ok(ASK)
    kernel.ok(SQ)
    for source, name in (("%%c\nask()", "Interrupted"), ("ask()", "KeyboardInterrupt")):
        identity = kernel.start(source, allow_stdin=True)
        kernel.client.get_stdin_msg(timeout=60)
        kernel.manager.interrupt_kernel()
        assert kernel.reply_to(identity)["ename"] == name
        assert "25" in kernel.ok("sq(5)")


def test_a_program_without_a_client_to_ask_is_told_so(kernel) -> None:
    kernel.ok(ASK)
    identity = kernel.start("%%c\nask()", allow_stdin=False)
    assert kernel.reply_to(identity)["status"] == "error"
    assert "42" in kernel.ok("40 + 2")


def test_threads_print_between_cells(kernel) -> None:
    kernel.ok(
        "%%c\n#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        'static void *later(void *x) { usleep(300000); puts("from a thread"); fflush(stdout); return 0; }\n'
        "void begin(void) { pthread_t t; pthread_create(&t, 0, later, 0); pthread_detach(t); }"
    )
    identity = kernel.start("begin()")
    assert kernel.reply_to(identity)["status"] == "ok"
    kernel.wait_output(identity, "from a thread")


def test_a_watched_global_is_updated_in_its_place(kernel) -> None:
    source = "%%llvm\n@n = i32 1\n%watch @n\n@n = i32 2\n%watch @n"
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
    for metadata, kinds in (
        ({"cellId": "x"}, ["display_data", "update_display_data"]),
        ({}, ["display_data"]),  # a client that prints what it gets: once, as it is in the end
    ):
        message = kernel.client.session.msg("execute_request", content, metadata=metadata)
        kernel.client.shell_channel.send(message)
        identity = message["header"]["msg_id"]
        found = []
        while not found or found[-1]["content"].get("execution_state") != "idle":
            got = kernel.client.get_iopub_msg(timeout=60)
            if got["parent_header"].get("msg_id") == identity:
                found.append(got)
        watched = [m for m in found if "@n" in str(m["content"].get("data", {}).get("text/plain"))]
        watched = [m for m in watched if "cell" not in m["content"]["data"]["text/plain"][:5]]
        assert [m["msg_type"] for m in watched] == kinds, watched
        assert "i32 2" in watched[-1]["content"]["data"]["text/plain"]
        assert kernel.reply_to(identity)["status"] == "ok"


def complete(kernel: PythonKernel, code: str, position: int | None = None) -> tuple[list[str], str]:
    identity = kernel.client.complete(code, position)
    content = kernel.reply_to(identity)
    return content["matches"], code[content["cursor_start"] : content["cursor_end"]]


@pytest.mark.parametrize(
    ("code", "typed", "offered"),
    [
        ("%jit expl", "expl", "explain"),
        ("%jit evict @s", "@s", "@sq"),
        ("%jit evict s", "s", "sq"),
        ("%jit asm @sq --tar", "--tar", "--target"),
        ("x = 1\n%jit evict --casc", "--casc", "--cascade"),
        ("%%jit pass mine --o", "--o", "--on"),
        ("%%llvm\n%r = call i32 @s", "@s", "@sq"),
        ("%%llvm\n%r = getelem", "getelem", "getelementptr"),
        ("%%kaleidoscope\nde", "de", "def"),
        ("%%c\nint f(void) { retu", "retu", "return"),
        ("%%c --inl", "--inl", "--inline"),
    ],
)
def test_tab_offers_what_the_kernel_offers(kernel, code, typed, offered) -> None:
    kernel.ok(SQ)
    matches, fragment = complete(kernel, code)
    assert fragment == typed and offered in matches, matches


def test_tab_in_python_is_python_s(kernel) -> None:
    kernel.ok(SQ)
    matches, _ = complete(kernel, "import o")
    assert "os" in matches
    assert "sq" in complete(kernel, "s")[0]
    assert "%%llvm" in complete(kernel, "%%llv")[0]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("%jit asm", "usage: %asm"),
        ("x = 1\n%jit explain --syn", "usage: %explain"),
        ("%jit asm @sq", "define i32 @sq"),
        ("%%jit timeit", "usage: %timeit"),
        ("%%llvm\n%r = call i32 @sq", "define i32 @sq"),
        ("%%c\nint r = malloc(", "void *malloc(»size_t size«)"),
        ("%%kaleidoscope\nde", ""),
        ("%%c\nint r = sorted", ""),  # of Python's names a cell of C has none
        ("%%llvm\n; sorted", ""),
        ("%jit", "Every magic of jitkernel"),  # IPython's own
        ("print", "Prints the values"),
    ],
)
def test_shift_tab_says_what_the_kernel_says(kernel, code, said) -> None:
    kernel.ok(SQ)
    content = kernel.reply_to(kernel.client.inspect(code))
    assert content["found"] == bool(said) and said in content["data"].get("text/plain", "")


def test_question_mark_knows_functions_of_cells(kernel) -> None:
    kernel.ok(SQ)
    identity = kernel.client.inspect("sq(", 2)
    content = kernel.reply_to(identity)
    assert content["found"] and "define i32 @sq" in content["data"]["text/plain"]


# -- other clients ---------------------------------------------------------------------------


def test_nbclient_runs_a_notebook_and_nbconvert_shows_it(home, tmp_path) -> None:
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    sources = ["%load_ext jitkernel", SQ + "@sq(7)", "sq(6)", "%jit asm @sq"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute(cwd=str(tmp_path))
    outputs = [outputs_text(cell["outputs"]) for cell in notebook.cells]
    assert "i32 49" in "\n".join(outputs[1]) and "36" in "\n".join(outputs[2])
    html, _ = HTMLExporter().from_notebook_node(notebook)
    assert "imul" in html


@pytest.fixture
def terminal(home) -> Iterator[pexpect.spawn]:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        env={**os.environ, "TERM": "dumb", "PAGER": "cat"}, encoding="utf-8", timeout=60,
    )  # fmt: skip
    child.expect(r"In \[1\]: ")
    child.sendline("%load_ext jitkernel")
    child.expect("%jit help")
    child.expect(r"In \[2\]: ")
    yield child
    child.close(force=True)


def typed(child: pexpect.spawn, *lines: str) -> str:
    """Type a line or a cell that ends with an empty one; what came until the next prompt."""
    for line in lines:
        child.sendline(line)
    if len(lines) > 1:
        child.sendline("")
    child.expect(r"In \[\d+\]: ")
    return str(child.before)


def test_ipython_on_a_terminal(terminal) -> None:
    cell = "get_ipython().run_cell_magic('llvm', '', '''define i32 @sq(i32 %x) {\\n  %r = mul i32 %x, %x\\n  ret i32 %r\\n}\\n@sq(7)''')"
    shown = typed(terminal, cell)
    assert "Out[2]: i32 49" in shown and "in Python: sq(x: int) -> int" in shown
    assert "Out[3]: 81" in typed(terminal, "sq(9)")
    assert "UsageError: argument 1" in typed(terminal, "sq('x')")
    typed(
        terminal,
        "get_ipython().run_cell_magic('llvm', '', '''define void @spin() {\\n  br label %l\\nl:\\n  br label %l\\n}''')",
    )
    terminal.sendline("print('be' + 'gun'); spin()")
    terminal.expect("begun")
    assert computes(terminal.pid)
    terminal.sendintr()
    terminal.expect(r"KeyboardInterrupt(.|\n)*In \[\d+\]: ")
    assert "spin()" in terminal.match.group(0) or "spin()" in terminal.before
    terminal.sendline("%jit @spin()")
    assert computes(terminal.pid)
    terminal.sendintr()
    terminal.expect(r"Interrupted: (.|\n)*In \[\d+\]: ")
    assert "Out" in typed(terminal, "sq(3)")
    typed(
        terminal,
        "get_ipython().run_cell_magic('c', '', '''"
        + ASK.split("\n", 1)[1].replace("\n", "\\n")
        + "''')",
    )
    terminal.sendline("ask()")
    terminal.expect(re.escape("n? "))
    terminal.sendline("40")
    terminal.expect(r"Out\[\d+\]: 40")
    terminal.expect(r"In \[\d+\]: ")
    terminal.sendline("ask()")
    terminal.expect(re.escape("n? "))
    time.sleep(0.3)
    terminal.sendintr()
    terminal.expect(r"KeyboardInterrupt(.|\n)*In \[\d+\]: ")
    processes = children(terminal.pid)
    assert processes
    terminal.sendline("exit")
    terminal.expect(pexpect.EOF)
    assert not gone_within(processes, 60)


def test_loading_it_costs_little_before_the_first_cell(home) -> None:
    kernel = PythonKernel()
    try:
        kernel.ok("1 + 1")
        process = psutil.Process(kernel.pid)
        before = process.memory_full_info().pss
        kernel.ok("%load_ext jitkernel")
        assert not process.children(recursive=True)
        assert process.memory_full_info().pss - before < 45 << 20
    finally:
        kernel.stop()


def test_a_kernel_that_is_killed_leaves_no_process(home) -> None:
    kernel = PythonKernel()
    try:
        kernel.ok("%load_ext jitkernel")
        kernel.ok(SQ)
        processes = children(kernel.pid)
        os.kill(kernel.pid, signal.SIGKILL)
        assert not gone_within(processes, 60)
    finally:
        kernel.stop()
