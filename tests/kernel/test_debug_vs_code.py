"""What VS Code sends: its Jupyter extension's debug adapter (microsoft/vscode-jupyter,
src/notebooks/debugger) between the kernel and VS Code's own client (microsoft/vscode,
src/vs/workbench/contrib/debug/browser: debugService, debugSession, rawDebugSession).

It was not recorded, but written down from these sources; every answer is checked against the
protocol's schema (`DebugClient`).  The extension starts a debugger only where a cell of Python's
tells it the version of ipykernel, so this is what it would do here.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.conftest import Kernel
from tests.kernel.debug_client import DebugClient, debug_client

TOOLS = "struct pair { int a; double b[300]; };\nint twice(int n) {\n  return n + n;\n}"
MAIN = """\
// the first line of code is below
struct pair both = { 4, { 1, 2, 3 } };
int walk(struct pair *p, int steps) {
  int sum = 0;
  for (int i = 0; i < steps; i++)
    sum += twice(p->a) + i;
  return sum;
}
walk(&both, 2)"""
BAD = "int peek(int *p) {\n  return *p;\n}\npeek((int *)8)"
_URI = "vscode-notebook-cell:/home/me/book.ipynb#W%dsZmlsZQ%%3D%%3D"
#: Of the client's capabilities, as debugSession.ts has them.
_CLIENT = {
    "clientID": "vscode", "clientName": "Visual Studio Code", "adapterID": "Python Kernel Debug Adapter",
    "pathFormat": "path", "linesStartAt1": True, "columnsStartAt1": True, "supportsVariableType": True,
    "supportsVariablePaging": True, "supportsRunInTerminalRequest": True, "locale": "en",
    "supportsProgressReporting": True, "supportsInvalidatedEvent": True, "supportsMemoryReferences": True,
    "supportsArgsCanBeInterpretedByShell": True, "supportsMemoryEvent": True,
    "supportsStartDebuggingRequest": True, "supportsANSIStyling": True,
}  # fmt: skip
#: Requests that VS Code sends only where a capability says so (rawDebugSession.ts).
_GATED = {
    "setFunctionBreakpoints": "supportsFunctionBreakpoints",
    "setInstructionBreakpoints": "supportsInstructionBreakpoints",
    "setDataBreakpoints": "supportsDataBreakpoints",
    "configurationDone": "supportsConfigurationDoneRequest",
    "setVariable": "supportsSetVariable",
    "setExpression": "supportsSetExpression",
    "completions": "supportsCompletionsRequest",
    "exceptionInfo": "supportsExceptionInfoRequest",
    "loadedSources": "supportsLoadedSourcesRequest",
    "modules": "supportsModulesRequest",
    "readMemory": "supportsReadMemoryRequest",
    "disassemble": "supportsDisassembleRequest",
    "terminate": "supportsTerminateRequest",
    "restartFrame": "supportsRestartFrame",
    "restart": "supportsRestartRequest",
    "stepBack": "supportsStepBack",
    "gotoTargets": "supportsGotoTargetsRequest",
    "stepInTargets": "supportsStepInTargetsRequest",
    "breakpointLocations": "supportsBreakpointLocationsRequest",
    "terminateThreads": "supportsTerminateThreadsRequest",
    "writeMemory": "supportsWriteMemoryRequest",
    "cancel": "supportsCancelRequest",
}


class Code:
    """VS Code, with a notebook of these cells."""

    def __init__(self, client: DebugClient, cells: list[str]):
        self.client, self.cells = client, cells
        self.files: dict[str, str] = {}  # the kernel's, and the cells' addresses

    def starts(self, breakpoints: dict[int, list[dict]], filters: tuple[str, ...] = ()) -> dict:
        """Debug Cell: up to where the cell is run."""
        ask = self.client.ask
        able = ask("initialize", **_CLIENT)
        assert ask("debugInfo")["stoppedThreads"] == []
        ask("attach", type="Python Kernel Debug Adapter", name="book.ipynb", request="attach",
            justMyCode=True, __mode="cell", __cellIndex=1, __notebookUri="file:///book.ipynb",
            __sessionId="5a1b")  # fmt: skip
        self.client.event("initialized")
        for index, wanted in breakpoints.items():
            self.sets(index, *wanted)
        for command in ("setFunctionBreakpoints", "setDataBreakpoints",
                        "setInstructionBreakpoints"):  # fmt: skip
            if able.get(_GATED[command]):
                ask(command, breakpoints=[])
        ask("setExceptionBreakpoints", filters=list(filters))
        # The extension runs a piece of Python, and then dumps all cells.
        hidden = "import debugpy\ndebugpy.debug_this_thread()"
        identity = self.client.channel.execute(hidden, store_history=False)
        assert self.client.kernel.reply_to(identity)["status"] == "error"
        for index in range(len(self.cells)):
            self.dumps(index)
        ask("configurationDone")
        ask("threads")
        return able

    def dumps(self, index: int) -> str:
        path = str(self.client.ask("dumpCell", code=self.cells[index])["sourcePath"])
        self.files[path] = _URI % index
        return path

    def sets(self, index: int, *wanted: dict) -> list[dict]:
        path = self.dumps(index)
        found = self.client.ask(
            "setBreakpoints", source={"name": "book.ipynb", "path": path},
            lines=[one["line"] for one in wanted], breakpoints=list(wanted), sourceModified=False,
        )["breakpoints"]  # fmt: skip
        assert len(found) == len(wanted)
        return list(found)

    def looks(self) -> list[dict]:
        """What it asks at a stop; the frames, with the places that a user sees."""
        ask = self.client.ask
        threads = ask("threads")["threads"]
        number = threads[0]["id"]
        first = ask("stackTrace", threadId=number, startFrame=0, levels=1)
        rest = ask("stackTrace", threadId=number, startFrame=1, levels=19)
        frames = [*first["stackFrames"], *rest["stackFrames"]]
        assert first["totalFrames"] == len(frames)
        for scope in ask("scopes", frameId=frames[0]["id"])["scopes"]:
            if not scope["expensive"]:
                self.opens(scope["variablesReference"])
        for frame in frames:
            source = frame.get("source")
            if source is None:
                continue
            if source["path"] in self.files:  # else it would not be shown in the cell
                assert not source.get("sourceReference")
                source["path"] = self.files[source["path"]]
            else:  # there is no such file: its text comes by its number
                text = ask("source", source=source, sourceReference=source["sourceReference"])
                assert text["content"]
        return frames

    def opens(self, reference: int) -> dict[str, dict]:
        found = self.client.ask("variables", variablesReference=reference)["variables"]
        return {one["name"]: one for one in found}


@pytest.fixture
def client(c_kernel: Kernel) -> Iterator[DebugClient]:
    with debug_client(c_kernel) as client:
        yield client


def test_debug_cell(client: DebugClient) -> None:
    client.ends(client.kernel.start(TOOLS))
    code, ask = Code(client, [TOOLS, MAIN, BAD]), client.ask
    able = code.starts({1: [{"line": 6, "condition": "i == 1"}]})
    assert able["supportsDelayedStackTraceLoading"] and able["supportsSteppingGranularity"]
    cell = client.kernel.start(MAIN)
    client.stopped("breakpoint")
    frames = code.looks()
    top = frames[0]
    assert (top["name"], top["line"], top["source"]["path"]) == ("walk", 6, _URI % 1)
    # hover, watch, copy, the debug console
    for context in ("hover", "watch", "clipboard", "repl"):
        asked = {"expression": "p->a", "frameId": top["id"], "context": context}
        assert ask("evaluate", **asked)["result"] == "4"
    assert client.refused("evaluate", {"expression": "nothing", "frameId": top["id"],
                                       "context": "watch"})  # fmt: skip
    # It types in the console.
    for text, wanted, start, length in (
        ("su", ["sum"], 1, 2), ("1 + p->", ["a", "b"], 8, 0), ("both.b", ["b"], 6, 1),
        ("bo", ["both"], 1, 2), ("steps - i", ["i"], 9, 1), ("none.", [], 0, 0),
    ):  # fmt: skip
        found = ask("completions", text=text, column=len(text) + 1, frameId=top["id"])["targets"]
        assert [one["label"] for one in found] == wanted, text
        assert all((one["start"], one["length"]) == (start, length) for one in found), text
    # An array of 300 is opened in pieces of 100, once its group is.
    part = code.opens(ask("evaluate", expression="both", frameId=top["id"])["variablesReference"])
    assert part["b"]["indexedVariables"] == 300
    reference = part["b"]["variablesReference"]
    page = ask("variables", variablesReference=reference, filter="indexed", start=100, count=100)
    assert [v["name"] for v in page["variables"]] == [f"[{n}]" for n in range(100, 200)]
    # Set Value, of a variable and of a watched expression.
    names = code.opens(client.scope())
    ask("setVariable", variablesReference=client.scope(), name="sum", value="100")
    changed = ask("setExpression", expression="both.b[1]", value="2.5", frameId=top["id"])
    assert changed["value"] == "2.5"
    memory = names["sum"]["memoryReference"]
    assert b64decode(ask("readMemory", memoryReference=memory, offset=0, count=4)["data"]) == (
        (100).to_bytes(4, "little")
    )
    assert client.refused("exceptionInfo", {"threadId": 1})
    # Step in, over, out; the disassembly beside it.
    client.to("stepIn", "step")
    frames = code.looks()
    assert [f["name"] for f in frames[:2]] == ["twice", "walk"]
    assert frames[0]["source"]["path"] == _URI % 0
    _disassembly(client, frames[0])
    ask("next", threadId=1, granularity="instruction")
    client.stopped("step")
    code.looks()
    client.to("stepOut", "step")
    code.sets(1)
    client.goes()
    assert "(int) 109" in client.ends(cell)[1]  # 100 + 8 + 1
    assert [m["name"] for m in ask("modules", startModule=0, moduleCount=10)["modules"]]
    # The cell is idle.
    ask("disconnect", restart=False)
    client.event("terminated")
    # The files it has had are removed by a piece of Python.
    identity = client.channel.execute("import os\n_VSCODE_fileList = []", store_history=False)
    client.kernel.reply_to(identity)


def _disassembly(client: DebugClient, frame: dict) -> None:
    """Its view asks for instructions before and behind the one that comes next."""
    here = int(frame["instructionPointerReference"], 0)
    asked = {"memoryReference": hex(here), "offset": 0, "instructionOffset": -20,
             "instructionCount": 50, "resolveSymbols": True}  # fmt: skip
    found = client.ask("disassemble", **asked)["instructions"]
    addresses = [int(one["address"], 0) for one in found]
    assert len(found) == 50 and addresses == sorted(set(addresses)) and addresses[20] == here
    known = [one["instruction"] for one in found[:20] if one["instruction"] != "??"]
    assert known[:2] == ["push rbp", "mov rbp, rsp"]


def test_run_by_line(client: DebugClient) -> None:
    """A breakpoint at the first line of code, and a step into at each."""
    client.ends(client.kernel.start(TOOLS))
    code, ask = Code(client, [TOOLS, MAIN]), client.ask
    code.starts({})
    first = next(n for n, line in enumerate(MAIN.split("\n"), 1) if not line.startswith("//"))
    code.sets(1, {"line": first})
    cell = client.kernel.start(MAIN)
    seen: list[tuple[int, bool]] = []
    while True:
        event = client.event("stopped", "continued")
        if event["event"] == "continued":
            break
        (frame,) = ask("stackTrace", threadId=1, startFrame=0, levels=1)["stackFrames"]
        path = frame.get("source", {}).get("path")
        seen.append((frame["line"], code.files.get(path) == _URI % 1))
        ask("stepIn", threadId=1)
    assert "(int) 17" in client.ends(cell)[1]
    lines = [line for line, is_here in seen if is_here]
    assert lines[0] == 4 and {4, 5, 6, 7} <= set(lines) and (3, False) in seen


def test_a_fault(client: DebugClient) -> None:
    code, ask = Code(client, [TOOLS, MAIN, BAD]), client.ask
    able = code.starts({}, ("faults",))
    assert able["exceptionBreakpointFilters"][0]["filter"] == "faults"
    cell = client.kernel.start(BAD)
    stop = client.stopped("exception")
    told = ask("exceptionInfo", threadId=stop["threadId"])
    assert told["description"] == stop["text"] and told["breakMode"] == "always"
    assert "segmentation fault" in told["description"]
    assert code.looks()[0]["name"] == "peek"
    client.goes()
    assert client.ends(cell)[0]["status"] == "error"


def test_a_cell_that_was_changed_is_shown_by_its_number(client: DebugClient) -> None:
    client.ends(client.kernel.start(TOOLS))
    code = Code(client, [TOOLS + "\n", MAIN])
    code.starts({1: [{"line": 6}]})
    cell = client.kernel.start(MAIN)
    client.stopped("breakpoint")
    client.to("stepIn", "step")
    frame = code.looks()[0]
    assert frame["name"] == "twice" and frame["source"]["sourceReference"] > 0
    # Others, such as JupyterLab, ask by the path.
    text = client.ask("source", source={"path": frame["source"]["path"]}, sourceReference=0)
    assert text["content"] == TOOLS
    assert client.refused("source", {"source": {"path": ""}, "sourceReference": 99})
    every = client.ask("loadedSources")["sources"]
    assert any(one["path"] == frame["source"]["path"] for one in every)
    code.sets(1)
    client.goes()
    client.ends(cell)


def test_capabilities_are_what_is_answered(client: DebugClient) -> None:
    """Each request that needs a capability is known where there is one, and else not."""
    able: dict[str, Any] = client.ask("initialize", **_CLIENT)
    for command, name in _GATED.items():
        reply = client.request(command, {})
        known = "is not supported" not in reply.get("message", "")
        assert known == bool(able.get(name)), command
        if command == "terminate":
            client.ask("initialize", **_CLIENT)
