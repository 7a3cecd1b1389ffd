"""Jupyter's debugger, as its clients use it.  All messages are checked against the protocol's schema
(`DebugClient`)."""

from __future__ import annotations

import os
import re
import signal
import statistics
import time
from collections.abc import Iterator

import pytest

from jitkernel.kernel.displays import plain as without_colours
from tests.busy import until
from tests.kernel.conftest import Kernel, children, unfolded
from tests.kernel.debug_client import DebugClient, debug_client

FACT = """\
int fact(int n) {
  int r = 1;
  for (int i = 2; i <= n; i++)
    r *= i;
  return r;
}
fact(5)"""
SUM = """\
define i32 @sum(i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 1, %entry ], [ %j, %loop ]
  %s = phi i32 [ 0, %entry ], [ %t, %loop ]
  %t = add i32 %s, %i
  %j = add i32 %i, 1
  %c = icmp sle i32 %j, %n
  br i1 %c, label %loop, label %out
out:
  ret i32 %t
}
@sum(3)"""
SPIN = """\
volatile int spinning = 1, turns;
int spin(void) {
  while (spinning) {
    turns++;
    turns += 0;
  }
  return 7;
}
spin()"""
#: Takes long to compile, and not to run.
LONG = "\n".join(f"int slow{i}(int x) {{ return x * {i} + (x >> {i % 31}); }}" for i in range(3000))


@pytest.fixture
def c(c_kernel: Kernel) -> Iterator[DebugClient]:
    with debug_client(c_kernel) as client:
        yield client


@pytest.fixture
def ir(kernel: Kernel) -> Iterator[DebugClient]:
    with debug_client(kernel) as client:
        yield client


# -- JupyterLab's sequence -------------------------------------------------------------------------


def _opened(client: DebugClient) -> None:
    """A notebook is opened, and the icon clicked."""
    client.number = -1
    for _ in range(2):
        told = client.ask("debugInfo")
        assert not told["isStarted"] and told["stoppedThreads"] == []
    client.attach()
    assert client.ask("debugInfo")["isStarted"]
    client.ask("inspectVariables")
    client.ask("modules")


def _lab_looks(client: DebugClient) -> tuple[list[tuple[str, int]], str, dict[str, str]]:
    """What Lab asks at a stop: where it is, the text of that line, the locals."""
    frames = client.frames()
    line = ""
    for frame in reversed(frames):
        if "source" in frame:
            line = client.text(frame)
    locals: dict[str, str] = {}
    for scope in client.ask("scopes", frameId=frames[0]["id"])["scopes"]:
        found = client.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        for variable in found:  # the panel shows the type in the place of the value
            assert variable["value"] in variable["type"]
        if scope["name"] == "Locals":
            locals = {v["name"]: v["value"] for v in found}
    return [(frame["name"], frame["line"]) for frame in frames], line, locals


def test_lab_and_a_cell_of_c(c: DebugClient) -> None:
    _opened(c)
    (point,) = c.breaks(FACT, 4)
    assert point["line"] == 4
    cell = c.kernel.start(FACT)
    c.ask("inspectVariables")
    assert c.stopped("breakpoint")["hitBreakpointIds"] == [point["id"]]
    where, line, locals = _lab_looks(c)
    assert where[0] == ("fact", 4) and where[1][1] == 7 and line.strip() == "r *= i;"
    assert locals == {"n": "5", "r": "1", "i": "2"}
    assert c.to("next")[0] in (("fact", 3), ("fact", 4))
    assert c.to("continue", "breakpoint")[0] == ("fact", 4)
    assert (
        c.ask("evaluate", expression="r * 100 + i", context="repl", frameId=c.frames()[0]["id"])[
            "result"
        ]
        == "203"
    )
    assert (
        c.ask("evaluate", expression="i = 5", context="repl", frameId=c.frames()[0]["id"])["result"]
        == "5"
    )
    assert c.breaks(FACT) == []
    assert c.to("stepOut", "step")[0][1] == 7
    c.goes()
    reply, shown = c.ends(cell)
    assert reply["status"] == "ok" and "(int) 10" in shown
    assert [e["event"] for e in c.quiet(0.1)] == []
    c.ask("modules")
    c.ask("inspectVariables")


def test_lab_and_a_cell_of_ir(ir: DebugClient) -> None:
    _opened(ir)
    ir.breaks(SUM, 7)
    cell = ir.kernel.start(SUM)
    ir.stopped("breakpoint")
    where, line, locals = _lab_looks(ir)
    assert where[0][1] == 7 and "sum" in where[0][0] and line == "  %t = add i32 %s, %i"
    assert locals["%n"] == "3" and locals["%i"] == "1" and locals["%s"] == "0"
    assert locals["%t"] == locals["%c"] == "<not yet>"
    assert ir.to("next")[0][1] == 8
    assert _lab_looks(ir)[2]["%t"] == "1"
    assert ir.to("continue")[0][1] == 7
    assert ir.values()["%i"] == "2" and ir.values()["%s"] == "1"
    assert (
        ir.ask("evaluate", expression="%s = 10", context="repl", frameId=ir.frames()[0]["id"])[
            "result"
        ]
        == "10"
    )
    ir.breaks(SUM)
    ir.goes()
    reply, shown = ir.ends(cell)
    assert reply["status"] == "ok" and "i32 15" in shown  # 10 + 2 + 3


def test_lab_and_a_cell_of_c_among_ir(ir: DebugClient) -> None:
    pytest.importorskip("ziglang")
    source = "%%c\n" + FACT
    _opened(ir)
    ir.breaks(source, 5)
    cell = ir.kernel.start(source)
    ir.stopped("breakpoint")
    where, line, locals = _lab_looks(ir)
    assert where[0] == ("fact", 5) and where[1][1] == 8 and line.strip() == "r *= i;"
    assert locals == {"n": "5", "r": "1", "i": "2"}
    ir.breaks(source)
    ir.goes()
    assert "(int) 120" in ir.ends(cell)[1]


def test_lab_and_kaleidoscope(kernel: Kernel, ir: DebugClient) -> None:
    source = "%%kaleidoscope\ndef plus(x y)\n  x +\n  y * 2\nplus(3, 4)"
    _opened(ir)
    ir.breaks(source, 4)
    cell = ir.kernel.start(source)
    ir.stopped("breakpoint")
    where, line, _ = _lab_looks(ir)
    assert where[0][0].lstrip("@") == "plus" and where[0][1] == 4 and line == "  y * 2"
    ir.goes()
    assert "11.0" in ir.ends(cell)[1]


def test_lab_sees_a_step_that_runs_off_the_end(c: DebugClient) -> None:
    c.attach()
    source = "int off(void) {\n  return 3;\n}\noff()"
    c.breaks(source, 4)
    cell = c.kernel.start(source)
    thread = c.stopped("breakpoint")["threadId"]
    c.goes("next")
    assert c.event("continued")["body"]["threadId"] == thread
    assert "(int) 3" in c.ends(cell)[1]


# -- other clients ---------------------------------------------------------------------------------


def test_the_sequence_of_vs_code(c: DebugClient) -> None:
    """As its Jupyter extension's debug adapter sends it: paths are those of dumped cells."""
    source = "struct pair { int a; double b[6]; } both = { 4, { 1, 2, 3 } };\n" + FACT
    able = c.attach("vscode", ("faults",))
    assert able["supportsConditionalBreakpoints"] and able["supportsLogPoints"]
    assert [f["filter"] for f in able["exceptionBreakpointFilters"]] == ["faults"]
    points = c.breaks(
        source,
        {"line": 4, "logMessage": "r is {r}"},
        {"line": 5, "condition": "i == 3"},
        {"line": 6, "hitCondition": "1"},
    )
    c.ask("setFunctionBreakpoints", breakpoints=[{"name": "fact"}])
    c.ask("configurationDone")
    cell = c.kernel.start(source)
    c.stopped("breakpoint")
    assert c.where()[0][0] == "fact"
    frame = c.frames()[0]["id"]
    c.goes()
    said = c.event("output")["body"]["output"]
    c.stopped("breakpoint")
    assert c.where()[0] == ("fact", 5)
    assert said == "r is 1\n"
    assert [t["name"] for t in c.ask("threads")["threads"]] == ["cell"]
    old, frame = frame, c.frames()[0]["id"]
    assert old != frame and "stackTrace of this stop" in c.refused("scopes", {"frameId": old})
    for context in ("hover", "watch", "repl", "clipboard", "variables"):
        assert c.ask("evaluate", expression="i", frameId=frame, context=context)["result"] == "3"
    whole = c.ask("evaluate", expression="both", frameId=frame, context="watch")
    parts = c.values(whole["variablesReference"])
    assert parts["a"] == "4" and list(parts) == ["a", "b"]
    (array,) = [
        v
        for v in c.ask("variables", variablesReference=whole["variablesReference"])["variables"]
        if v["name"] == "b"
    ]
    assert array["indexedVariables"] == 6
    page = c.values(array["variablesReference"], start=1, count=2)
    assert page == {"[1]": "2.0", "[2]": "3.0"}
    rest = c.values(array["variablesReference"], start=4, count=100)
    assert list(rest) == ["[4]", "[5]"]
    made = c.ask("setVariable", variablesReference=c.scope(), name="r", value="i * 7")
    assert made["value"] == "21"
    memory = c.ask("readMemory", memoryReference=_reference(c, "r"), count=4)
    assert memory["data"] == "FQAAAA=="
    told = c.frames()[0]["instructionPointerReference"]
    code = c.ask("disassemble", memoryReference=told, instructionCount=3)["instructions"]
    assert len(code) == 3 and int(code[0]["address"], 0) == int(told, 0)
    assert c.refused("scopes", {"frameId": 1}) and c.refused("scopes", {"frameId": frame + 500})
    assert c.frames() == c.ask("stackTrace", threadId=1, startFrame=0, levels=20)["stackFrames"]
    assert [f["id"] for f in c.ask("stackTrace", threadId=1, startFrame=1, levels=1)["stackFrames"]]
    assert c.to("continue", "breakpoint")[0] == ("fact", 6)
    c.ask("setFunctionBreakpoints", breakpoints=[])
    c.goes()
    assert "(int) 1260" in c.ends(cell)[1]  # 21 * 3 * 4 * 5
    assert len({point["id"] for point in points}) == 3


def _reference(client: DebugClient, name: str) -> str:
    found = client.ask("variables", variablesReference=client.scope())["variables"]
    return str({v["name"]: v for v in found}[name]["memoryReference"])


def test_messages_instead_of_stops(c: DebugClient) -> None:
    c.attach("vscode")
    c.breaks(FACT, {"line": 4, "logMessage": "i {i}, r {r}, {nothing}"})
    reply, _ = c.ends(c.kernel.start(FACT))
    assert reply["status"] == "ok"
    events = c.quiet()
    lines = [e["body"]["output"] for e in events if e["event"] == "output"]
    assert [line.split(", <")[0] for line in lines] == [
        "i 2, r 1", "i 3, r 2", "i 4, r 6", "i 5, r 24",
    ]  # fmt: skip
    assert all("nothing" in line for line in lines)
    assert not [e for e in events if e["event"] == "stopped"]


def test_a_condition_that_means_nothing_stops_and_says_so(c: DebugClient) -> None:
    c.attach("vscode")
    c.breaks(FACT, {"line": 4, "condition": "nothing > 1"})
    cell = c.kernel.start(FACT)
    assert "nothing" in c.event("output")["body"]["output"]
    c.stopped("breakpoint")
    assert "makes no sense" not in c.breaks(FACT)
    c.goes()
    c.ends(cell)


def test_a_breakpoint_that_is_no_code_says_so(c: DebugClient) -> None:
    c.attach("vscode")
    source = "int early(void) {\n  return 1;\n}\n\n// the end"
    (point,) = c.breaks(source, 5)
    assert not point["verified"] and "as soon as" in point["message"]
    c.ends(c.kernel.start(source))
    c.ends(c.kernel.start("early()"))
    c.breaks(source, 5)
    c.ends(c.kernel.start("early()"))
    changed = c.event("breakpoint")["body"]["breakpoint"]
    assert not changed["verified"] and "no code" in changed["message"]
    (point,) = c.breaks(source, 2)
    cell = c.kernel.start("early()")
    changed = c.event("breakpoint")["body"]
    assert changed["reason"] == "changed" and changed["breakpoint"]["verified"]
    c.stopped("breakpoint")
    c.goes()
    c.ends(cell)


# -- what makes no sense ---------------------------------------------------------------------------

STANDING = [
    ("stackTrace", {"threadId": 1}),
    ("scopes", {"frameId": 1}),
    ("variables", {"variablesReference": 1}),
    ("setVariable", {"variablesReference": 1, "name": "x", "value": "1"}),
    ("next", {"threadId": 1}),
    ("stepIn", {"threadId": 1}),
    ("stepOut", {"threadId": 1}),
    ("continue", {"threadId": 1}),
    ("pause", {"threadId": 1}),
]
EARLY = [
    *STANDING,
    ("threads", {}),
    ("evaluate", {"expression": "1"}),
    ("setFunctionBreakpoints", {"breakpoints": [{"name": "f"}]}),
    ("setInstructionBreakpoints", {"breakpoints": []}),
    ("setExceptionBreakpoints", {"filters": []}),
    ("readMemory", {"memoryReference": "0x10", "count": 1}),
    ("disassemble", {"memoryReference": "0x10", "instructionCount": 1}),
]


def test_requests_before_initialize(ir: DebugClient) -> None:
    for command, arguments in EARLY:
        assert "initialize comes first" in ir.refused(command, arguments), command
    path = ir.ask("dumpCell", code="@abs(-2)")["sourcePath"]
    wanted = {"source": {"path": path}, "breakpoints": [{"line": 1}]}
    reply = ir.request("setBreakpoints", wanted)
    assert not reply["success"] and reply["body"] == {"breakpoints": []}
    assert "variables" in ir.ask("inspectVariables")
    ir.ask("configurationDone")


def test_requests_while_nothing_stands(ir: DebugClient) -> None:
    ir.attach()
    for command, arguments in STANDING:
        words = ir.refused(command, arguments)
        assert "nothing" in words, (command, words)
    assert ir.request("stackTrace", {"threadId": 1})["body"]["stackFrames"] == []
    assert ir.ask("threads")["threads"]
    assert ir.request("evaluate", {"expression": "6 * 7"})["body"]["result"] == "42"


GARBAGE = [
    ("nonsense", {}), ("", {}), (None, {}), (7, {}), (["next"], {}), ("restart", {}),
    ("__init__", {}), ("answer", {}), ("evaluate", None), ("evaluate", {}), ("evaluate", [1, 2]),
    ("evaluate", "text"), ("evaluate", {"expression": 5}), ("evaluate", {"expression": ""}),
    ("evaluate", {"expression": "1", "frameId": "one"}), ("dumpCell", {}), ("dumpCell", {"code": 3}),
    ("source", {}), ("source", {"source": 3}), ("source", {"source": {"path": "/etc/passwd"}}),
    ("setBreakpoints", {}), ("setBreakpoints", {"source": {}}),
    ("setBreakpoints", {"source": {"path": "?"}, "breakpoints": [{"line": 1}]}),
    ("setBreakpoints", {"source": {"path": None}, "breakpoints": 5}),
    ("setFunctionBreakpoints", {"breakpoints": [5]}), ("setFunctionBreakpoints", {}),
    ("setFunctionBreakpoints", {"breakpoints": [{"name": ""}]}),
    ("setInstructionBreakpoints", {"breakpoints": [{"instructionReference": "x"}]}),
    ("setExceptionBreakpoints", {"filters": 3}), ("setExceptionBreakpoints", {"filters": [3]}),
    ("scopes", {"frameId": True}), ("scopes", {"frameId": 10**30}), ("variables", {}),
    ("variables", {"variablesReference": -1}), ("variables", {"variablesReference": 1.5}),
    ("setVariable", {"variablesReference": 1}), ("readMemory", {"memoryReference": "", "count": 1}),
    ("disassemble", {"memoryReference": 16}), ("richInspectVariables", {}),
    ("richInspectVariables", {"variableName": "no such"}), ("copyToGlobals", {}),
    ("next", {"granularity": 3}), ("initialize", {"clientID": 3}), ("disconnect", 3),
]  # fmt: skip


def test_garbage_is_answered_with_words(ir: DebugClient) -> None:
    for on in (False, True):
        if on:
            ir.attach()
        for command, arguments in GARBAGE:
            words = ir.refused(command, arguments)
            assert len(words) > 10 and "Traceback" not in words, (command, arguments, words)
    ir.breaks("@abs(-1)", 10**9)
    ir.kernel.ok("@abs(-1)")
    assert ir.request("setFunctionBreakpoints", {"breakpoints": [{"name": "no_such"}]})["success"]
    for bad in ({"line": 1, "hitCondition": "often"}, {"line": 0}, {"line": -1}, {"line": "1"}):
        path = ir.ask("dumpCell", code="@abs(-1)")["sourcePath"]
        assert ir.refused("setBreakpoints", {"source": {"path": path}, "breakpoints": [bad]})


def test_garbage_at_a_stop(c: DebugClient) -> None:
    c.attach("vscode")
    c.breaks(FACT, 4)
    cell = c.kernel.start(FACT)
    c.stopped()
    for command, arguments in GARBAGE:
        if command not in ("disconnect", "next"):
            c.refused(command, arguments)
    reference = c.scope()
    for value in ("", "twelve", "1 +", '"text"', "r = 1"):
        reply = c.request(
            "setVariable", {"variablesReference": reference, "name": "r", "value": value}
        )
        assert reply["success"] == (value == "r = 1"), (value, reply)
    assert "nothing" in c.refused(
        "setVariable", {"variablesReference": reference, "name": "nobody", "value": "1"}
    )
    c.refused("evaluate", {"expression": "fact(3)", "context": "watch"})
    c.breaks(FACT)
    c.goes()
    assert "(int) 120" in c.ends(cell)[1]


def test_break_where_expressions_are_typed(c: DebugClient) -> None:
    c.attach()
    c.breaks(FACT, 7)
    cell = c.kernel.start(FACT)
    c.stopped("breakpoint")

    def typed(text: str) -> str:
        frame = c.frames()[0]["id"]
        return str(c.ask("evaluate", expression=text, context="repl", frameId=frame)["result"])

    assert "line 4" in typed("%break 4 if i == 4")
    assert "r *= i" in typed("%breaks")
    assert "begins with if" in typed("%break 4 i == 4")
    assert "no line 99" in typed("%break 99")
    # Lab sends all lines again, without conditions: that one keeps its own.
    told = c.ask("debugInfo")["breakpoints"][0]["breakpoints"]
    assert sorted(b["line"] for b in told) == [4, 7]
    c.breaks(FACT, 4, 7)
    assert c.to("continue", "breakpoint")[0] == ("fact", 4)
    assert c.values()["i"] == "4"
    c.breaks(FACT)
    c.goes()
    assert "(int) 120" in c.ends(cell)[1]


def test_views_where_expressions_are_typed(c: DebugClient) -> None:
    c.attach()
    c.breaks(FACT, 4)
    cell = c.kernel.start(FACT)
    c.stopped("breakpoint")

    def typed(text: str, frame: int = 0) -> str:
        frames = c.frames()
        asked = {"expression": text, "context": "repl", "frameId": frames[frame]["id"]}
        return str(c.ask("evaluate", **asked)["result"])

    assert re.search(r"^int fact(?s:.*)^=> 4 ", typed("%asm"), re.M)
    assert re.search(r"^=> %for.body:", typed("%cfg"), re.M)
    assert re.search(r"^=> #0 ", typed("%stack"), re.M)
    assert re.search(r"^=> #1 ", typed("%stack", 1), re.M)
    assert typed("%memory").startswith("Memory (bytes)") and "%watch NAME" in typed("%watch")
    assert "%undo is not done while the program stands" in typed("%undo")
    assert typed("%d") != "" and typed("i % n") == "2"
    c.breaks(FACT)
    c.goes()
    assert "(int) 120" in c.ends(cell)[1]
    assert "int fact" in str(c.ask("evaluate", expression="%asm fact", context="repl")["result"])


def _rich(client: DebugClient, name: str, **more: int) -> dict[str, str]:
    return dict(client.ask("richInspectVariables", variableName=name, **more)["data"])


def test_variables_in_full(c: DebugClient) -> None:
    made = "struct pair { int a; double b[6]; } both = { -4, { 1, 2, 3 } };\ndouble rise[9];"
    c.ends(c.kernel.start(made))
    # without a debugger
    shown = _rich(c, "both")
    assert shown["text/plain"].startswith("both: struct pair\nmember")
    assert "<table>" in shown["text/html"] and ">-4<" in shown["text/html"]
    assert _rich(c, "both.a") == {**_rich(c, "both.a"), "text/plain": "int -4"}
    c.attach()
    source = (
        "int look(struct pair *p) {\n  for (int i = 0; i < 9; i++)\n    rise[i] = i;\n"
        "  return p->a;\n}\nint outer(int k) {\n  return look(&both) + k;\n}\nouter(1)"
    )
    c.breaks(source, 3, 4)
    cell = c.kernel.start(source)
    c.stopped("breakpoint")
    first = [f["id"] for f in c.frames()]
    assert ">struct pair *<" not in _rich(c, "p", frameId=first[0])["text/html"]
    assert _rich(c, "i", frameId=first[0])["text/plain"] == "int 0"
    assert _rich(c, "k", frameId=first[1])["text/plain"] == "int 1"
    # A part, of which the client knows only its name.
    whole = c.ask("evaluate", expression="p", frameId=first[0], context="watch")
    c.values(whole["variablesReference"])
    assert _rich(c, "b", frameId=first[0])["text/plain"].startswith("p->b: double[6]")
    # A later stop, and the number that the frame had.
    c.to("continue", "breakpoint")
    assert _rich(c, "i", frameId=first[0])["text/plain"] == "int 1"
    assert _rich(c, "k", frameId=first[1])["text/plain"] == "int 1"
    c.breaks(source, 4)
    c.to("continue", "breakpoint")
    assert "<img" in _rich(c, "rise", frameId=first[0])["text/html"]
    c.breaks(source, 9)
    c.goes()
    assert "(int) -3" in c.ends(cell)[1]
    assert "nothing here is called i" in c.refused("richInspectVariables", {"variableName": "i"})


def test_variables_in_full_while_a_cell_runs(c: DebugClient) -> None:
    cell = c.kernel.start(SPIN)
    assert until(lambda: c.request("richInspectVariables", {"variableName": "turns"})["success"])
    text = _rich(c, "turns")["text/plain"]
    assert text.startswith("volatile int ")
    assert until(lambda: _rich(c, "turns")["text/plain"] != text)
    c.kernel.manager.interrupt_kernel()
    assert c.ends(cell)[0]["ename"] == "Interrupted"


# -- while something else goes on ------------------------------------------------------------------


def test_the_control_channel_is_free_while_a_cell_compiles(c: DebugClient) -> None:
    c.attach()
    cell = c.kernel.start(LONG)
    c.kernel.begun(cell)
    slow = c.send("inspectVariables")  # needs the session, which compiles
    took = []
    while len(took) < 10:
        before = time.perf_counter()
        c.ask("debugInfo")
        path = c.ask("dumpCell", code="@abs(-7)")["sourcePath"]
        c.ask("source", source={"path": path}, sourceReference=0)
        if slow in c.replies:
            break
        took.append(time.perf_counter() - before)
    assert took, "the compile was over too soon to tell"
    print(f"three requests while a cell compiles: median {1e3 * statistics.median(took):.1f} ms")
    c.reply(slow)
    assert c.kernel.reply_to(cell, 120)["status"] == "ok"


def test_an_interrupt_comes_through_while_a_request_waits(c: DebugClient) -> None:
    c.attach()
    cell = c.kernel.start(LONG.replace("slow", "slower"))
    c.kernel.begun(cell)
    slow = c.send("evaluate", {"expression": "1 + 1"})
    c.kernel.manager.interrupt_kernel()
    assert c.kernel.reply_to(cell, 60)["status"] == "error"
    assert c.reply(slow)["body"]["result"] == "2"


def test_requests_while_a_cell_runs(c: DebugClient) -> None:
    c.attach()
    cell = c.kernel.start(SPIN)
    c.kernel.begun(cell)
    found: dict[str, str] = {}

    def turning() -> bool:
        variables = c.ask("inspectVariables")["variables"]
        found.update({v["name"]: v["value"] for v in variables})
        return int(found.get("turns", "0")) > 0

    until(turning, 30, 0.02)
    assert found["spinning"] == "1" and int(found["turns"]) > 0
    c.ask("debugInfo")
    assert c.ask("threads")["threads"]
    c.ask("pause", threadId=1)
    c.stopped("pause")
    assert c.where()[0][0] == "spin"
    assert c.ask("evaluate", expression="spinning = 0", context="repl")["result"] == "0"
    c.goes()
    assert "(int) 7" in c.ends(cell)[1]


def test_breakpoints_change_while_it_runs_and_while_it_stands(c: DebugClient) -> None:
    c.attach()
    source = (
        SPIN.replace("spin", "whirl").replace("whirlning", "whirling").replace("turns", "rounds")
    )
    c.breaks(source, 4)
    cell = c.kernel.start(source)
    c.stopped("breakpoint")
    assert c.to("continue", "breakpoint")[0] == ("whirl", 4)
    c.breaks(source, 5)  # while it stands
    assert c.to("continue", "breakpoint")[0] == ("whirl", 5)
    assert c.breaks(source) == []
    c.goes()
    assert not [e for e in c.quiet() if e["event"] == "stopped"]
    c.breaks(source, 4)  # while it runs
    c.stopped("breakpoint")
    assert c.where()[0] == ("whirl", 4)
    c.breaks(source, 4, 5)
    assert c.to("continue", "breakpoint")[0] == ("whirl", 5)
    assert c.to("continue", "breakpoint")[0] == ("whirl", 4)
    c.breaks(source)
    c.goes()
    c.ask("pause", threadId=1)
    c.stopped("pause")
    assert c.ask("evaluate", expression="whirling = 0", context="repl")["result"] == "0"
    c.goes()
    assert "(int) 7" in c.ends(cell)[1]


def test_an_interrupt_ends_what_stands(c: DebugClient) -> None:
    c.attach()
    c.breaks(FACT, 4)
    cell = c.kernel.start(FACT)
    thread = c.stopped()["threadId"]
    c.kernel.manager.interrupt_kernel()
    assert c.event("continued")["body"]["threadId"] == thread
    assert c.ends(cell)[0]["status"] == "error"
    assert c.ask("debugInfo")["stoppedThreads"] == []
    c.breaks(FACT)
    assert c.kernel.result("fact(4)") == "(int) 24"


@pytest.mark.parametrize("how", [{"terminateDebuggee": False}, {"terminateDebuggee": True}, None])
def test_disconnect_and_terminate_at_a_stop(c: DebugClient, how: dict[str, bool] | None) -> None:
    c.attach()
    c.breaks(FACT, 4)
    cell = c.kernel.start(FACT)
    c.stopped()
    if how is None:
        c.ask("terminate", restart=False)
    else:
        c.ask("disconnect", restart=False, **how)
    reply, shown = c.ends(cell)
    goes_on = how == {"terminateDebuggee": False}
    assert ("(int) 120" in shown) == goes_on and reply["status"] == ("ok" if goes_on else "error")
    told = c.ask("debugInfo")
    assert not told["isStarted"] and told["breakpoints"] == [] and told["stoppedThreads"] == []
    assert "initialize comes first" in c.refused("next", {"threadId": 1})
    c.attach()
    assert c.kernel.result("fact(3)") == "(int) 6"


def test_the_executor_is_killed_at_a_stop(c: DebugClient) -> None:
    c.attach()
    c.breaks(FACT, 4)
    cell = c.kernel.start(FACT)
    stopped = c.stopped()
    os.kill(stopped["threadId"], signal.SIGKILL)
    reply, shown = c.ends(cell)
    assert reply["status"] == "error" and "SIGKILL" in shown and "Traceback" not in shown
    assert c.event("continued")["body"]["threadId"] == stopped["threadId"]
    assert "nothing" in c.refused("next", {"threadId": 1})
    cell = c.kernel.start(FACT)
    c.stopped("breakpoint")
    c.breaks(FACT)
    c.goes()
    assert "(int) 120" in c.ends(cell)[1]


def test_the_kernel_restarts_at_a_stop() -> None:
    pytest.importorskip("ziglang")
    kernel = Kernel("--JITKernel.default_language=c")
    try:
        c = DebugClient(kernel)
        c.attach()
        c.breaks(FACT, 4)
        kernel.start(FACT)
        c.stopped()
        before = children(kernel.pid)
        kernel.manager.restart_kernel()
        kernel.client.wait_for_ready(timeout=60)
        assert until(lambda: not before & children(kernel.pid), 10, 0.05)
        c = DebugClient(kernel)  # as Lab restores what it had
        assert not c.ask("debugInfo")["isStarted"]
        c.attach()
        c.breaks(FACT, 5)
        c.ask("configurationDone")
        assert c.ask("debugInfo")["breakpoints"][0]["breakpoints"] == [{"line": 5}]
        cell = kernel.start(FACT)
        c.stopped("breakpoint")
        assert c.where()[0] == ("fact", 5)
        c.goes()
        assert "(int) 120" in c.ends(cell)[1]
    finally:
        kernel.stop()


# -- stepping --------------------------------------------------------------------------------------


def test_step_from_one_cell_into_another(c: DebugClient) -> None:
    inner = "int doubled(int x) {\n  int y = x + x;\n  return y;\n}"
    outer = "int outer(int x) {\n  int z = doubled(x);\n  return z + 1;\n}\nouter(4)"
    c.kernel.ok(inner)
    c.attach()
    c.breaks(outer, 2)
    cell = c.kernel.start(outer)
    c.stopped("breakpoint")
    where = c.to("stepIn", "step")
    assert where[0] == ("doubled", 2) and where[1] == ("outer", 2)
    assert c.text(c.frames()[0]) == "  int y = x + x;"
    assert c.values()["x"] == "4"
    assert c.to("next", "step")[0] == ("doubled", 3)
    assert c.to("stepOut", "step")[0][0] == "outer"
    assert c.to("next", "step")[0] == ("outer", 3)
    assert c.values()["z"] == "8"
    c.goes()
    assert "(int) 9" in c.ends(cell)[1]


def test_recursion(c: DebugClient) -> None:
    source = (
        "int fib(int n) {\n  if (n < 2)\n    return n;\n  int a = fib(n - 1);\n"
        "  int b = fib(n - 2);\n  return a + b;\n}\nfib(5)"
    )
    c.attach("vscode")
    c.breaks(source, {"line": 4, "condition": "n == 5"})
    cell = c.kernel.start(source)
    c.stopped("breakpoint")
    assert c.to("next", "step")[0] == ("fib", 5)  # in the same frame
    assert c.values()["n"] == "5" and c.values()["a"] == "3"
    assert c.to("stepIn", "step")[0] == ("fib", 2)
    assert [name for name, _ in c.where()[:2]] == ["fib", "fib"]
    assert c.values()["n"] == "3" and c.values(c.scope(frame=1))["n"] == "5"
    assert c.to("stepOut", "step")[0][0] == "fib"
    assert c.values()["n"] == "5"
    c.goes()
    assert "(int) 5" in c.ends(cell)[1]


def test_a_comparator_that_qsort_calls(c: DebugClient) -> None:
    source = (
        "#include <stdlib.h>\nint items[] = { 3, 1, 2 };\n"
        "int compare(const void *a, const void *b) {\n  int x = *(int *)a, y = *(int *)b;\n"
        "  return x - y;\n}\nint sorted(void) {\n  qsort(items, 3, sizeof items[0], compare);\n"
        "  return items[0] * 100 + items[1] * 10 + items[2];\n}\nsorted()"
    )
    c.attach()
    c.breaks(source, 5)
    cell = c.kernel.start(source)
    c.stopped("breakpoint")
    where = c.where()
    assert where[0] == ("compare", 5) and ("sorted", 8) in where
    assert all("path" in f["source"] for f in c.frames())  # else Lab's call stack ends in an error
    between = [f for f in c.frames() if f.get("presentationHint") == "subtle"]
    assert between
    for frame in between:  # machine code, from where the frame goes on
        text = c.ask("source", source={"path": frame["source"]["path"]}, sourceReference=0)
        assert "its source is not known" in text["content"].split("\n")[0]
        assert c.text(frame).startswith(frame["instructionPointerReference"])
    assert any("libc" in f["name"] or "sort" in f["name"] for f in between)
    assert {c.values()["x"], c.values()["y"]} < {"1", "2", "3"}
    c.breaks(source)
    c.goes()
    assert "(int) 123" in c.ends(cell)[1]


FAULT = """\
int stored = 5, *nowhere = 0;
int peek(int *p) {
  int before = 1;
  int v = *p;
  return v + before;
}
peek(nowhere)"""


def test_a_fault_that_is_mended(c: DebugClient) -> None:
    c.attach(filters=("faults",))
    c.breaks(FAULT, 99)
    cell = c.kernel.start(FAULT)
    stopped = c.stopped("exception")
    assert "SIGSEGV" in stopped["text"] or "memory" in stopped["text"]
    assert c.where()[0] == ("peek", 4)
    c.ask("setVariable", variablesReference=c.scope(), name="p", value="&stored")
    c.goes()
    assert "(int) 6" in c.ends(cell)[1]


def test_a_fault_that_is_left_alone(c: DebugClient) -> None:
    plain = c.kernel.fails(FAULT.replace("peek", "plain"))
    c.attach(filters=("faults",))
    source = FAULT.replace("peek", "again")
    cell = c.kernel.start(source)
    c.stopped("exception")
    c.goes()
    reply, shown = c.ends(cell)
    assert reply["status"] == "error" and "at  again" in shown
    said = plain.replace("plain", "again").split("\n")[0]
    assert said in unfolded(without_colours(shown)), plain
    assert c.kernel.result("stored") == "(int) 5"
    c.ask("setExceptionBreakpoints", filters=[])
    reply, _ = c.ends(c.kernel.start(source))
    assert reply["status"] == "error"
    assert not [e for e in c.quiet(0.1) if e["event"] == "stopped"]


# -- time ------------------------------------------------------------------------------------------


def test_how_long_a_step_takes(c: DebugClient) -> None:
    c.attach()
    source = FACT.replace("fact(5)", "fact(100)").replace("r *= i", "r += i")
    c.breaks(source, 4)
    cell = c.kernel.start(source)
    c.stopped()
    took = []
    for _ in range(50):
        before = time.perf_counter()
        identity = c.send("next", {"threadId": 1})
        c.event("stopped")
        took.append(time.perf_counter() - before)
        assert c.reply(identity)["success"]
    print(
        f"next to stopped, over ZMQ: median {1e3 * statistics.median(took):.1f} ms of {len(took)}"
    )
    c.breaks(source)
    c.goes()
    assert c.ends(cell)[0]["status"] == "ok"
