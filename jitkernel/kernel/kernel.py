"""`JITKernel`: Jupyter's messages, one handler each, named after the message.

What a cell means is the session's business, what magics do the frontend's.  Here: exactly one
complete reply to every request, output under the right parent, interrupts, and an orderly end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zmq
from ipykernel._version import kernel_protocol_version
from ipykernel.jsonutil import json_clean
from ipykernel.kernelbase import Kernel
from jupyter_core.paths import jupyter_data_dir
from traitlets import Any as AnyTrait
from traitlets import Instance

from jitkernel._version import __version__
from jitkernel.errors import Interrupted, JitError, UsageError
from jitkernel.kernel.between import Between
from jitkernel.kernel.debug_commands import typed
from jitkernel.kernel.debugger import Adapter
from jitkernel.kernel.displays import error_content
from jitkernel.kernel.early import find_language
from jitkernel.kernel.frontend import Frontend, deleted_cells
from jitkernel.kernel.history import History
from jitkernel.kernel.settings import JITKernelSettings, sections
from jitkernel.kernel.wire import WireOutput
from jitkernel.views.view import View

if TYPE_CHECKING:
    from jitkernel.languages import Language
    from jitkernel.session import Session

LISTENER_PATIENCE, CLOSING_PATIENCE = 1.0, 2.0  # seconds


class JITKernel(JITKernelSettings, Kernel):
    """One kernel over one session."""

    implementation = "jitkernel"
    implementation_version = __version__

    # IPKernelApp hands these to every kernel.
    user_ns = AnyTrait(None)
    debugpy_stream = AnyTrait(None)

    frontend = Instance(Frontend)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Subshells bring a thread each: one cell at a time all the same.
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.wire = WireOutput(
            self, lambda: self.chosen("max_output"), lambda: self.frontend.was_interrupted
        )
        self.frontend = Frontend(
            kwargs["parent"].jit_session.get,
            self.wire,
            {**sections(self.config), "JITKernel": self},
            History(
                Path(jupyter_data_dir(), "jitkernel", "history.sqlite"),
                self.chosen("history_length"),
            ),
        )
        self._early = kwargs["parent"].jit_session
        self.frontend.on_session = self._take_session
        self._between = Between(self.frontend, self._lock, self.log)
        self.register_comms()
        self.adapter = Adapter(
            lambda: self.frontend.session,
            lambda: self.language.file_extension,
            self._debug_event,
            self.interrupt,
            lambda text, frame: typed(self.frontend, text, frame),
        )

    def _take_session(self, session: Session) -> None:
        self._early.adopt(session)
        self.adapter.session_changed(session)

    # -- the language of cells without %% --------------------------------------------------

    @property
    def language(self) -> Language:
        """The default language."""
        return find_language(self.chosen("default_language"))

    @property
    def language_info(self) -> dict[str, object]:  # type: ignore[override]
        """The facts that editors and nbconvert want to know."""
        language = self.language
        return {
            "name": language.name,
            "version": language.version,
            "mimetype": language.mimetype,
            "file_extension": language.file_extension,
            "pygments_lexer": language.cell_lexer or language.lexer,
            "codemirror_mode": language.editor_mode or language.name,
            "nbconvert_exporter": "script",
        }

    @property
    def banner(self) -> str:  # type: ignore[override]
        """The line that a console prints first."""
        shown = self.language.display_name or self.language.name
        return f"jitkernel {__version__}: {shown} cells in one growing program. %help helps."

    @property
    def help_links(self) -> list[dict[str, str]]:  # type: ignore[override]
        """For the help menu."""
        url = self.language.help_url
        return [{"text": f"{self.language.display_name} reference", "url": url}] if url else []

    # -- every request ---------------------------------------------------------------------

    async def should_handle(self, stream: Any, msg: Any, idents: Any) -> bool:
        """Nothing is done before somebody listens to what it publishes.

        A client's channels connect one after the other.  One that sends a cell as soon as it can
        (jupyter console) would else miss the first `idle` and wait for it for ever.
        """
        subscribed = getattr(self.iopub_thread, "subscribed", None)
        if subscribed is not None and not subscribed.is_set():
            await asyncio.to_thread(subscribed.wait, LISTENER_PATIENCE)
            subscribed.set()  # a client that does not listen waits once
        return True

    # -- kernel_info_request ---------------------------------------------------------------

    @property
    def kernel_info(self) -> dict[str, Any]:
        # Not the base class's: that imports debugpy to find out whether there could be a debugger.
        return {
            "protocol_version": kernel_protocol_version,
            "implementation": self.implementation,
            "implementation_version": self.implementation_version,
            "language_info": self.language_info,
            "banner": self.banner,
            "help_links": self.help_links,
            "debugger": True,
            "supported_features": [
                "debugger",
                *(["kernel subshells"] if self._supports_kernel_subshells else []),
            ],
        }

    # -- execute_request -------------------------------------------------------------------

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        count = self.execution_count
        reply: dict[str, Any] = {
            "status": "ok",
            "execution_count": count,
            "user_expressions": {},
            "payload": [],
        }
        self.adapter.runs(code)
        with self._lock:
            self.wire.begin_request(silent=silent, allow_stdin=allow_stdin, count=count)
            self._between.end()
            try:
                self._run(code, cell_id, silent, store_history, reply)
                if reply["status"] == "ok":
                    reply["user_expressions"] = self._user_expressions(user_expressions or {})
            # Whatever escaped would leave the client waiting for a reply for ever.
            except BaseException as error:
                reply.update(self._failed(error, silent))
            finally:
                self.wire.end()
                self._between.begin()
            reply["payload"] = self.wire.payload
            if not silent and not store_history:
                # The base class counted before it asked us.
                self.execution_count -= 1
            self._count_cells(silent)
        return reply

    def _count_cells(self, silent: bool) -> None:
        """Go on with a number that is free: what was defined is a cell, whoever ran it, and so are
        members of archives that it took; no text that a silent run has left in memory."""
        if (session := self.frontend.started) is not None:
            from jitkernel.session.residency.garbage import has_only_data  # a session has it

            program, number = session.inspect.program, session.number
            last = program.cells.get(number)
            if not silent or (last is not None and not has_only_data(program, last)):
                self.execution_count = max(self.execution_count, number)

    def _run(
        self,
        code: str,
        cell_id: str | None,
        silent: bool,
        store_history: bool,
        reply: dict[str, Any],
    ) -> None:
        frontend = self.frontend
        shown = None
        try:
            with frontend.cell_runs(self.execution_count):
                if silent or not store_history:
                    result = frontend.aside(code)
                else:
                    result = frontend.cell(code, cell_id, deleted_cells(self.get_parent("shell")))
            if result is not None and result.text:
                view = frontend.masked(View(result.text, result.html))
                shown = view.text
                if not silent:
                    self.wire.result(view)
        except BaseException as caught:
            closing = Interrupted("the kernel is shutting down")
            reply.update(self._failed(closing if self._closing.is_set() else caught, silent))
        if store_history and not silent and code.strip():
            frontend.history.store(self.execution_count, code, shown)

    def _failed(self, error: BaseException, silent: bool) -> dict[str, Any]:
        """The reply's words for an error, which is also published, once."""
        content = error_content(error, self.chosen("deterministic"))
        if not isinstance(error, JitError | KeyboardInterrupt):
            self.log.error("a cell failed inside jitkernel", exc_info=error)
        if not silent:
            self.wire.error(content)
        return {"status": "error", **content}

    def _user_expressions(self, expressions: dict[str, str]) -> dict[str, Any]:
        """Each expression is a call line; one that fails fails alone."""
        values: dict[str, Any] = {}
        for name, source in expressions.items():
            try:
                with self.frontend.cell_runs(self.frontend.number, start=False):
                    result = self.frontend.aside(source)
                data = {"text/plain": result.text} if result is not None else {}
                values[name] = {"status": "ok", "data": data, "metadata": {}}
            except Exception as error:
                values[name] = self._failed(error, silent=True)
        return values

    # -- complete_request, inspect_request, is_complete_request ----------------------------

    async def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        from jitkernel.kernel.completion import complete, reply

        position = _within(code, cursor_pos)
        try:
            return complete(self.frontend, code, position)
        except Exception:
            self.log.exception("completion")
            return reply((), position, position)

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        from jitkernel.kernel.inspection import inspect_at

        position = _within(code, cursor_pos)
        try:
            view = inspect_at(self.frontend, code, position, detail_level)
        except UsageError as error:  # what there is to do before anything can be told
            view = View(str(error))
        except Exception:
            self.log.exception("inspection")
            view = None
        if view is None:
            return {"status": "ok", "found": False, "data": {}, "metadata": {}}
        data = self.frontend.masked(view)._repr_mimebundle_()
        return {"status": "ok", "found": True, "data": data, "metadata": {}}

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        from jitkernel.languages.llvm.language import is_complete

        # What begins with %% is read in one way whatever its language: a blank line ends it.
        of_cell = code.lstrip().startswith("%%")
        found = is_complete(code) if of_cell else self.language.is_complete(code)
        reply: dict[str, Any] = {"status": found.status}
        if found.status == "incomplete":
            reply["indent"] = found.indent
        return reply

    # -- history_request -------------------------------------------------------------------

    async def do_history(  # noqa: PLR0913  (as ipykernel calls it)
        self,
        hist_access_type: str,
        output: bool,
        raw: bool,
        session: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        n: int | None = None,
        pattern: str | None = None,
        unique: bool = False,
    ) -> dict[str, Any]:
        history = self.frontend.history
        if hist_access_type == "tail":
            found = history.tail(n or 0, output)
        elif hist_access_type == "range":
            found = history.range(session or 0, start or 0, stop, output)
        elif hist_access_type == "search":
            found = history.search(pattern or "*", n, unique, output)
        else:
            found = []
        return {"status": "ok", "history": found}

    # -- comm_open, comm_msg, comm_close ---------------------------------------------------

    def register_comms(self) -> None:
        """Front ends may open comms; ipykernel's manager answers them."""
        import comm
        import ipykernel.ipkernel  # noqa: F401  (makes `comm` publish through this kernel)

        self.comm_manager = comm.get_comm_manager()
        for kind in ("comm_open", "comm_msg", "comm_close"):
            self.shell_handlers[kind] = getattr(self.comm_manager, kind)

    # -- debug_request ---------------------------------------------------------------------

    async def debug_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """On the control thread, so it is read while a cell runs.  A request may have to wait for
        the session: others are answered meanwhile, interrupts too."""
        self._control_lock.release()
        try:
            reply = await self.adapter.answer(parent["content"])
        finally:
            await self._control_lock.acquire()
            self.set_parent(ident, parent, channel="control")  # whose `idle` comes next
        if self.session:
            self.session.send(stream, "debug_reply", json_clean(reply), parent, ident=ident)
            stream.flush(zmq.POLLOUT)
        self.adapter.answered(reply)

    def _debug_event(self, content: dict[str, Any]) -> None:
        """Publish an event of the debugger's, from any thread."""
        self.session.send(  # type: ignore[union-attr]
            self.iopub_socket, "debug_event", content, parent={}, ident=self._topic("debug_event")
        )

    # -- interrupt_request -----------------------------------------------------------------

    def pre_handler_hook(self) -> None:
        """SIGINT has one handler for the process's life: see `JITKernelApp.init_signal`."""

    post_handler_hook = pre_handler_hook

    def interrupt(self) -> None:
        """End the cell that runs; called on the control thread."""
        self.frontend.press(self.control_thread.io_loop.call_later)

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """On the control thread, so it is read while a cell runs."""
        self.interrupt()
        if self.session:
            self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    # -- shutdown_request ------------------------------------------------------------------

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """End what runs, then every process of the session, before the reply."""
        self._closing.set()
        self.interrupt()
        session = self.frontend.session
        if await asyncio.to_thread(self._lock.acquire, timeout=CLOSING_PATIENCE):
            self._lock.release()
        with contextlib.suppress(Exception):
            session.close()
        self.frontend.history.close()
        self.wire.close()
        return {"status": "ok", "restart": restart}


def _within(code: str, position: int | None) -> int:
    """The cursor's place, also for a client that says it is past the end, or does not say."""
    return len(code) if position is None else max(0, min(position, len(code)))
