"""A client of a kernel's debugger.  Every message is checked against the Debug Adapter Protocol's own
schema, and against the shapes that ipykernel gives to the requests that Jupyter adds."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from tests.kernel.conftest import Kernel

_SCHEMA = "_vendored/pydevd/_pydevd_bundle/_debug_adapter/debugProtocol.json"
_VARIABLES = {
    "type": "object", "required": ["variables"],
    "properties": {
        "variables": {"type": "array", "items": {"$ref": "#/definitions/Variable"}},
    },
}  # fmt: skip
#: Bodies of what Jupyter adds (ipykernel/debugger.py, jupyter-client's "Messaging").
_ADDED: dict[str, Any] = {
    "debugInfo": {
        "type": "object",
        "required": [
            "isStarted", "hashMethod", "hashSeed", "tmpFilePrefix", "tmpFileSuffix", "breakpoints",
            "stoppedThreads", "richRendering", "exceptionPaths", "copyToGlobals",
        ],
        "properties": {
            "isStarted": {"type": "boolean"},
            "hashMethod": {"const": "Murmur2"},
            "hashSeed": {"type": "integer"},
            "tmpFilePrefix": {"type": "string"},
            "tmpFileSuffix": {"type": "string"},
            "breakpoints": {
                "type": "array",
                "items": {
                    "type": "object", "required": ["source", "breakpoints"],
                    "properties": {
                        "source": {"type": "string"},
                        "breakpoints": {
                            "type": "array",
                            "items": {"$ref": "#/definitions/SourceBreakpoint"},
                        },
                    },
                },
            },
            "stoppedThreads": {"type": "array", "items": {"type": "integer"}},
            "richRendering": {"type": "boolean"},
            "exceptionPaths": {"type": "array", "items": {"type": "string"}},
            "copyToGlobals": {"type": "boolean"},
        },
    },
    "dumpCell": {
        "type": "object", "required": ["sourcePath"],
        "properties": {"sourcePath": {"type": "string"}},
    },
    "inspectVariables": _VARIABLES,
    "richInspectVariables": {
        "type": "object", "required": ["data", "metadata"],
        "properties": {"data": {"type": "object"}, "metadata": {"type": "object"}},
    },
    "copyToGlobals": {"type": "object"},
}  # fmt: skip


@cache
def _definitions() -> dict[str, Any]:
    spec = importlib.util.find_spec("debugpy")
    places = [Path(p, _SCHEMA) for p in (spec and spec.submodule_search_locations) or ()]
    for place in places:
        if place.is_file():
            return dict(json.loads(place.read_text())["definitions"])
    pytest.skip("debugpy, which has the protocol's schema, is not installed")


def _check(message: dict[str, Any], definition: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = {**definition, "definitions": _definitions()}
    try:
        jsonschema.Draft4Validator(schema).validate(message)
    except jsonschema.ValidationError as error:
        raise AssertionError(f"{error.message}\nin {message}") from None


def _defined(name: str, kind: str) -> dict[str, str] | None:
    name = f"{name[:1].upper()}{name[1:]}{kind}"
    return {"$ref": f"#/definitions/{name}"} if name in _definitions() else None


class DebugClient:
    """A client as JupyterLab is one, unless it calls itself otherwise."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.channel = kernel, kernel.client
        self.number = 0
        self.outputs: list[dict] = []  # iopub messages that are none of the debugger's
        self.events: list[dict] = []  # those that nobody has waited for yet
        self.replies: dict[str, dict] = {}

    # -- requests ------------------------------------------------------------------------------

    def send(self, command: Any, arguments: Any = None) -> str:
        """Send a request and do not wait; its message id."""
        self.number += 1
        content = {"type": "request", "seq": self.number, "command": command}
        if arguments is not None:
            content["arguments"] = arguments
        message = self.channel.session.msg("debug_request", content)
        self.channel.control_channel.send(message)
        return str(message["header"]["msg_id"])

    def reply(self, identity: str, timeout: float = 60) -> dict[str, Any]:
        """The reply to a request, which is as the protocol says."""
        while identity not in self.replies:
            found = self.channel.control_channel.get_msg(timeout=timeout)
            self.replies[found["parent_header"]["msg_id"]] = found
        message = self.replies.pop(identity)
        assert message["msg_type"] == "debug_reply"
        content: dict[str, Any] = message["content"]
        command = content["command"]
        _check(content, {"$ref": "#/definitions/Response"})
        if not content["success"]:
            _check(content, {"$ref": "#/definitions/ErrorResponse"})
            assert content["message"].strip()
        elif command in _ADDED:
            _check(content["body"], _ADDED[command])
        else:
            defined = _defined(command, "Response")
            assert defined is not None, command
            _check(content, defined)
        return content

    def request(self, command: Any, arguments: Any = None) -> dict[str, Any]:
        return self.reply(self.send(command, arguments))

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """What a request gives that is as the protocol says and has to succeed."""
        defined = _defined(command, "Request")
        if defined is not None:
            _check(
                {"type": "request", "seq": 1, "command": command, "arguments": arguments}, defined
            )
        reply = self.request(command, arguments)
        assert reply["success"], reply
        return dict(reply["body"])

    def refused(self, command: Any, arguments: Any = None) -> str:
        """Why a request fails."""
        reply = self.request(command, arguments)
        assert not reply["success"], reply
        return str(reply["message"])

    # -- events --------------------------------------------------------------------------------

    def _take(self, timeout: float) -> None:
        message = self.channel.get_iopub_msg(timeout=timeout)
        if message["msg_type"] == "debug_event":
            content = message["content"]
            defined = _defined(content["event"], "Event")
            assert defined is not None, content
            _check(content, defined)
            self.events.append(content)
        else:
            self.outputs.append(message)

    def event(self, *kinds: str, timeout: float = 60) -> dict[str, Any]:
        """The next event of one of these kinds."""
        deadline = time.monotonic() + timeout
        while True:
            for index, event in enumerate(self.events):
                if event["event"] in kinds:
                    del self.events[: index + 1]
                    return event
            self._take(max(0.1, deadline - time.monotonic()))

    def stopped(self, reason: str = "") -> dict[str, Any]:
        """The body of the next `stopped`."""
        body = dict(self.event("stopped")["body"])
        assert not reason or body["reason"] == reason, body
        return body

    def quiet(self, seconds: float = 0.3) -> list[dict]:
        """Events that are there, or come soon."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._take(left)
            except Empty:
                break
        found, self.events = self.events, []
        return found

    # -- what clients do -----------------------------------------------------------------------

    def attach(self, client: str = "jupyterlab", filters: tuple[str, ...] = ()) -> dict[str, Any]:
        able = self.ask(
            "initialize", clientID=client, clientName=client, adapterID="", pathFormat="path",
            linesStartAt1=True, columnsStartAt1=True, supportsVariableType=True,
            supportsVariablePaging=True, supportsRunInTerminalRequest=True, locale="en",
        )  # fmt: skip
        self.ask("attach")
        self.event("initialized")
        self.ask("setExceptionBreakpoints", filters=list(filters))
        return able

    def breaks(self, source: str, *lines: int | dict[str, Any]) -> list[dict[str, Any]]:
        """Set a cell's breakpoints, as a click in the gutter does."""
        path = self.ask("dumpCell", code=source)["sourcePath"]
        self.ask("debugInfo")
        wanted = [{"line": line} if isinstance(line, int) else line for line in lines]
        found = self.ask(
            "setBreakpoints", source={"path": path}, breakpoints=wanted, sourceModified=False
        )["breakpoints"]
        assert len(found) == len(wanted)
        return list(found)

    def frames(self) -> list[dict[str, Any]]:
        return list(self.ask("stackTrace", threadId=1)["stackFrames"])

    def where(self) -> list[tuple[str, int]]:
        """Names and lines of the frames, the innermost first."""
        return [(frame["name"], frame["line"]) for frame in self.frames()]

    def text(self, frame: dict[str, Any]) -> str:
        """The line of its source that a frame is at."""
        source = {"path": frame["source"]["path"]}
        content = self.ask("source", source=source, sourceReference=0)["content"]
        return str(content.split("\n")[frame["line"] - 1])

    def scope(self, name: str = "Locals", frame: int = 0) -> int:
        identity = self.frames()[frame]["id"]
        scopes = self.ask("scopes", frameId=identity)["scopes"]
        return int({s["name"]: s["variablesReference"] for s in scopes}[name])

    def values(self, reference: int = 0, **arguments: int) -> dict[str, str]:
        """Values by name: of the innermost frame's locals, or of what a reference stands for."""
        found = self.ask("variables", variablesReference=reference or self.scope(), **arguments)
        return {v["name"]: v["value"] for v in found["variables"]}

    def goes(self, command: str = "continue") -> dict[str, Any]:
        """Let the program go on; the reply."""
        reply = self.request(command, {"threadId": 1})
        assert reply["success"], reply
        return reply

    def to(self, command: str, reason: str = "") -> list[tuple[str, int]]:
        """Let it go on to the next stop, of which it is not told before the request is answered:
        where that is."""
        reply = self.goes(command)
        event = self.event("stopped")
        assert reply["seq"] < event["seq"]
        assert not reason or event["body"]["reason"] == reason
        return self.where()

    def ends(self, identity: str, timeout: float = 60) -> tuple[dict, str]:
        """The reply to a cell, and all that it has shown."""
        reply = self.kernel.reply_to(identity, timeout)
        while not any(_idle(message, identity) for message in self.outputs):
            self._take(timeout)
        shown = [m for m in self.outputs if m["parent_header"].get("msg_id") == identity]
        self.outputs.clear()
        return reply, "\n".join(filter(None, map(_shown, shown)))


@contextmanager
def debug_client(kernel: Kernel) -> Iterator[DebugClient]:
    """A client while a test lasts; what one that failed has left running is ended."""
    client = DebugClient(kernel)
    yield client
    if client.request("pause", {"threadId": 1})["success"]:
        kernel.manager.interrupt_kernel()
    client.ask("disconnect", restart=False, terminateDebuggee=True)


def _idle(message: dict, identity: str) -> bool:
    return (
        message["parent_header"].get("msg_id") == identity
        and message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
    )


def _shown(message: dict) -> str:
    content = message["content"]
    return str(
        content.get("text")
        or (content.get("data") or {}).get("text/plain", "")
        or "\n".join(content.get("traceback", ()))
    )
