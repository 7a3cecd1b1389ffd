"""What jupyter_kernel_test leaves out: silent, counts, stdin, comms, aborted, user expressions."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel

SQ = "define i32 @sq(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}"


def test_counts_and_result(kernel: Kernel) -> None:
    first, outputs = kernel.run(SQ + "\n@sq(7)")
    (out,) = [o for o in outputs if o["output_type"] == "execute_result"]
    assert out["data"]["text/plain"] == "i32 49"
    assert out["execution_count"] == first["execution_count"]
    second, _ = kernel.run("@sq(2)")
    assert second["execution_count"] == first["execution_count"] + 1
    assert first["payload"] == [] and first["user_expressions"] == {}


def test_results_are_named_by_the_prompt(kernel: Kernel) -> None:
    kernel.ok(SQ)
    reply, _ = kernel.run("@sq(9)")
    assert kernel.result("_") == "i32 81"
    kernel.ok("%pwd")
    assert kernel.result(f"_{reply['execution_count']}") == "i32 81"


def test_earlier_values_are_displayed(kernel: Kernel) -> None:
    kernel.ok(SQ)
    _, outputs = kernel.run("@sq(2)\n@sq(3)")
    shown = [o for o in outputs if o["output_type"] == "display_data"]
    assert [o["data"]["text/plain"] for o in shown] == ["@sq(2) = i32 4"]


def test_silent_shows_and_counts_nothing(kernel: Kernel) -> None:
    before, _ = kernel.run("@abs(-1)")
    identity = kernel.start('@puts("unseen")\n@abs(-2)', silent=True)
    reply = kernel.reply_to(identity)
    kinds = [m["msg_type"] for m in kernel.iopub_of(identity)]
    assert reply["status"] == "ok"
    assert kinds == ["status", "status"]
    after, _ = kernel.run("@abs(-1)")
    assert after["execution_count"] == before["execution_count"] + 1


def test_cells_that_others_ran_have_numbers_too(kernel: Kernel) -> None:
    """Whoever has defined something, the next prompt's number is that of its result."""
    for number, options in enumerate(({"silent": True}, {"store_history": False})):
        identity = kernel.start(f"define i32 @aside{number}() {{\n  ret i32 1\n}}", **options)
        assert kernel.reply_to(identity)["status"] == "ok"
        reply, _ = kernel.run(f"@abs(-{40 + number})")
        assert kernel.result(f"_{reply['execution_count']}") == f"i32 {40 + number}"


def test_a_silent_error_is_in_the_reply_only(kernel: Kernel) -> None:
    identity = kernel.start("sq(7)", silent=True)
    assert kernel.reply_to(identity)["status"] == "error"
    assert [m["msg_type"] for m in kernel.iopub_of(identity)] == ["status", "status"]


def test_store_history_false_does_not_count(kernel: Kernel) -> None:
    before, _ = kernel.run("@abs(-1)")
    identity = kernel.start("@abs(-5)", store_history=False)
    reply = kernel.reply_to(identity)
    messages = kernel.iopub_of(identity)
    (shown,) = [m for m in messages if m["msg_type"] == "execute_input"]
    assert shown["content"]["execution_count"] == reply["execution_count"]
    after, _ = kernel.run("@abs(-1)")
    assert after["execution_count"] == before["execution_count"] + 1
    identity = kernel.client.history(hist_access_type="tail", n=1)
    assert kernel.reply_to(identity)["history"][0][2] == "@abs(-1)"
    kernel.iopub_of(identity)


#: Waits until there is a file.
WAIT = """\
declare i32 @access(ptr, i32)
declare i32 @usleep(i32)
define void @wait(ptr %path) {
  br label %again
again:
  %slept = call i32 @usleep(i32 1000)
  %missing = call i32 @access(ptr %path, i32 0)
  %c = icmp ne i32 %missing, 0
  br i1 %c, label %again, label %end
end:
  ret void
}"""


def test_cells_after_a_failed_one_are_aborted(kernel: Kernel, tmp_path: Path) -> None:
    # The others must have arrived when it fails.
    kernel.ok(WAIT)
    first = kernel.start(
        f'@wait("{tmp_path / "go"}")\n@usleep(400000)\n@nothing_like_it(1)', stop_on_error=True
    )
    later = [kernel.start("@abs(-1)") for _ in range(3)]
    kernel.reached()
    (tmp_path / "go").touch()
    assert kernel.reply_to(first)["status"] == "error"
    assert {kernel.reply_to(identity)["status"] for identity in later} == {"aborted"}
    kernel.iopub_of(later[-1])
    assert kernel.result("@abs(-4)") == "i32 4"


def test_without_stop_on_error_they_run(kernel: Kernel) -> None:
    first = kernel.start("this is no IR", stop_on_error=False)
    second = kernel.start("@abs(-1)")
    assert kernel.reply_to(first)["status"] == "error"
    assert kernel.reply_to(second)["status"] == "ok"
    kernel.iopub_of(second)


def test_user_expressions_fail_one_by_one(kernel: Kernel) -> None:
    identity = kernel.start(
        "@abs(-1)", user_expressions={"good": "@abs(-3)", "bad": "@nothing_like_it(1)"}
    )
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == "ok"
    assert reply["user_expressions"]["good"]["data"]["text/plain"] == "i32 3"
    assert reply["user_expressions"]["bad"]["status"] == "error"
    assert kernel.result(f"_{reply['execution_count']}") == "i32 1"


def test_an_error_is_published_once_and_in_the_reply(kernel: Kernel) -> None:
    text = kernel.fails("%x = add 1, 2")
    assert text.startswith("CompileError: line 1")
    assert "hint: " in text


@pytest.mark.parametrize("source", ["", "   \n\n", "; only a comment", "\n"])
def test_empty_cells(kernel: Kernel, source: str) -> None:
    assert kernel.ok(source) == ""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("\x00\x01\x02", "line 1, column 1: character U+0000 is not text; nothing was read"),
        ("@" * 5000, "cannot be understood"),
        ("(" * 3000, "cannot be understood"),
        ("define", "line 1, column 7: expected type"),
        ("%", "'%' cannot be understood"),
        ("@", "'@' cannot be understood"),
        ("?", "'?' cannot be understood"),
        ("%%", "'%%' cannot be understood"),
        ("\ud7ff \U0001f600", "cannot be understood"),
        ("!", None),  # an empty command
    ],
)
def test_garbage_gets_an_error(kernel: Kernel, source: str, words: str | None) -> None:
    if words is None:
        assert kernel.ok(source) == ""
    else:
        text = kernel.fails(source)
        assert text.startswith("CompileError: line 1") and words in text
    assert kernel.result("@abs(-2)") == "i32 2"


def test_what_runs_aside_takes_no_number(kernel: Kernel) -> None:
    for options in (
        {"silent": True},
        {"store_history": False},
        {"user_expressions": {"x": "@abs(-9)"}},
    ):
        identity = kernel.start("@abs(-6)", **options)
        assert kernel.reply_to(identity)["status"] == "ok"
        kernel.iopub_of(identity)
    kernel.ok("%time @abs(-9)")
    reply, _ = kernel.run("@abs(-7)")
    assert kernel.result(f"_{reply['execution_count']}") == "i32 7"


# -- stdin -----------------------------------------------------------------------------------


READ = """\
@line = global [64 x i8] zeroinitializer
@stdin = external global ptr
define i32 @ask() {
  %in = load ptr, ptr @stdin
  %p = call ptr @fgets(ptr @line, i32 64, ptr %in)
  %n = call i64 @strlen(ptr @line)
  %m = trunc i64 %n to i32
  ret i32 %m
}
@ask()"""


def test_a_cell_that_reads_asks_the_client(kernel: Kernel) -> None:
    identity = kernel.client.execute(READ, allow_stdin=True)
    request = kernel.client.get_stdin_msg(timeout=60)
    assert request["msg_type"] == "input_request"
    kernel.client.input("four")
    assert kernel.reply_to(identity)["status"] == "ok"
    kernel.iopub_of(identity)
    assert kernel.result("_") == "i32 5"


def test_without_an_input_box_it_says_so(kernel: Kernel) -> None:
    identity = kernel.client.execute(READ, allow_stdin=False)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == "error"
    assert "input" in reply["evalue"]
    assert kernel.result("@abs(-2)") == "i32 2"


# -- comms -----------------------------------------------------------------------------------


def test_comms(kernel: Kernel) -> None:
    message = kernel.client.session.msg(
        "comm_open", {"comm_id": "nobody", "target_name": "no.such.target", "data": {}}
    )
    kernel.client.shell_channel.send(message)
    kinds = [m["msg_type"] for m in kernel.iopub_of(message["header"]["msg_id"])]
    assert "comm_close" in kinds
    assert "No such comm target registered: no.such.target" in kernel.logged()
    identity = kernel.client.comm_info()
    assert kernel.reply_to(identity) == {"status": "ok", "comms": {}}
    kernel.iopub_of(identity)


# -- subshells -------------------------------------------------------------------------------


def test_one_cell_at_a_time_whatever_the_shell(kernel: Kernel) -> None:
    """A subshell is a thread of its own; its cell waits for the one that runs."""
    client = kernel.client
    client.control_channel.send(client.session.msg("create_subshell_request", {}))
    subshell = client.get_control_msg(timeout=60)["content"]["subshell_id"]
    first = kernel.start('@puts("on")\n@usleep(400000)\n@abs(-1)')
    kernel.wait_output(first, "on")
    content = {
        "code": "@abs(-2)", "silent": False, "store_history": True, "user_expressions": {},
        "allow_stdin": False, "stop_on_error": True,
    }  # fmt: skip
    message = client.session.msg("execute_request", content)
    message["header"]["subshell_id"] = subshell
    client.shell_channel.send(message)
    replies = [client.get_shell_msg(timeout=60) for _ in range(2)]  # each by its own thread
    assert [reply["content"]["status"] for reply in replies] == ["ok", "ok"]
    second = message["header"]["msg_id"]
    assert {reply["parent_header"]["msg_id"] for reply in replies} == {first, second}
    results = {}
    while len(results) < 2:
        found = client.get_iopub_msg(timeout=60)
        if found["msg_type"] == "execute_result":
            results[found["parent_header"]["msg_id"]] = found["content"]["data"]["text/plain"]
    assert list(results.items()) == [(first, "i32 1"), (second, "i32 2")]
    client.control_channel.send(
        client.session.msg("delete_subshell_request", {"subshell_id": subshell})
    )
    assert client.get_control_msg(timeout=60)["content"]["status"] == "ok"


# -- output ----------------------------------------------------------------------------------


def test_output_streams_while_the_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok(WAIT)
    go = tmp_path / "go"
    identity = kernel.start(f'@puts("first")\n@fflush(null)\n@wait("{go}")\n@puts("last")')
    kernel.wait_output(identity, "first")
    go.touch()
    assert kernel.reply_to(identity)["status"] == "ok"
    kernel.iopub_of(identity)


LATER = """\
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
@go = constant [SIZE x i8] c"GO\\00"
@thread = global i64 0
@words = constant [6 x i8] c"later\\00"
define ptr @later(ptr %x) {
  call void @wait(ptr @go)
  %p = call i32 @puts(ptr @words)
  %f = call i32 @fflush(ptr null)
  ret ptr null
}
define i32 @begin() {
  %r = call i32 @pthread_create(ptr @thread, ptr null, ptr @later, ptr null)
  ret i32 %r
}
@begin()"""


def test_output_between_cells_is_shown(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok(WAIT)
    go = tmp_path / "go"
    identity = kernel.start(LATER.replace("SIZE", str(len(str(go)) + 1)).replace("GO", str(go)))
    assert kernel.reply_to(identity)["status"] == "ok"
    kernel.iopub_of(identity)
    go.touch()
    kernel.wait_output(identity, "later", timeout=60)


def test_output_carries_the_cell_that_made_it(kernel: Kernel) -> None:
    for text in ("one", "two"):
        identity = kernel.start(f'@puts("{text}")')
        kernel.reply_to(identity)
        streams = [m for m in kernel.iopub_of(identity) if m["msg_type"] == "stream"]
        assert "".join(m["content"]["text"] for m in streams) == text + "\n"


def test_max_output_cuts_a_cell(kernel: Kernel) -> None:
    kernel.ok("%config JITKernel.max_output=2000")
    try:
        text = kernel.ok("!head -c 100000 /dev/zero | tr '\\0' x")
    finally:
        kernel.ok("%config JITKernel.max_output=1M")
    assert text.count("x") < 2100
    assert "output cut at 2000 bytes" in text
    assert "98000 more bytes" in text


def test_a_cell_that_takes_members_of_an_archive(kernel: Kernel, tmp_path: Path) -> None:
    """The members are a cell too: the prompt behind goes on with the number that is free."""
    for name in ("gcc", "ar"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    (tmp_path / "four.c").write_text("int four(void) { return 4; }")
    for command in (["gcc", "-c", "four.c"], ["ar", "rcs", "libfour.a", "four.o"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    told = kernel.ok(f"%link {tmp_path}/libfour.a")
    assert told.count("none linked yet") == 1
    first, _ = kernel.run("declare i32 @four()\ndefine i32 @f() {\n  %r = call i32 @four()\n"
                          "  ret i32 %r\n}\n@f()")  # fmt: skip
    assert kernel.result(f"_{first['execution_count']}") == "i32 4"
    second, _ = kernel.run("define i32 @g() {\n  ret i32 5\n}\n@g()")
    assert kernel.result(f"_{second['execution_count']}") == "i32 5"
    assert re.search(rf"\n +{second['execution_count']}  live   @g ", kernel.ok("%cells"))
