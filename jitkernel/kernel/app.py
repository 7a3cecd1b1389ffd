"""The application that a Jupyter client starts: sockets, threads, configuration.

Built on IPKernelApp for its sockets and threads only.  It has a configuration of its own
(`jitkernel_config.py` or `.json` on Jupyter's configuration path) and never reads, nor creates,
the user's IPython profile.  Start from `JITKernelApp`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import ipykernel.kernelapp
import jupyter_client.session
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp, kernel_aliases
from jupyter_core.paths import jupyter_config_dir, jupyter_config_path
from traitlets import Any as AnyTrait
from traitlets import Bool, DottedObjectName, Integer, Type, Unicode, default
from traitlets.config import Application

from jitkernel._version import __version__
from jitkernel.kernel import settings
from jitkernel.kernel.early import EarlySession
from jitkernel.kernel.kernel import JITKernel
from jitkernel.kernel.settings import (
    ALIASES,
    CONFIG_NAME,
    FLAGS,
    Arena,
    Compiler,
    Executor,
    ObjectCache,
)


class Session(jupyter_client.session.Session, settings.Session):  # type: ignore[misc,valid-type]
    """The growing program, and the wire to the client: both are set in the section `Session`."""

    # Jupyter's own default, 65,536, would grow with every message for the life of most kernels.
    digest_history_size = Integer(
        1024,
        config=True,
        help="The maximum number of digests to remember, against messages that are sent again.",
    )


class SubscribedIOPubThread(IOPubThread):
    """The iopub thread, with a flag that some client listens."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.subscribed = threading.Event()
        super().__init__(*args, **kwargs)

    def _handle_subscription(self, frames: Any) -> None:
        super()._handle_subscription(frames)
        self.subscribed.set()


_KEPT = ("f", "ip", "hb", "shell", "iopub", "stdin", "control", "transport", "log-level")
OWN_ALIASES: dict[str, str] = {
    **{str(name): str(trait) for name, trait in kernel_aliases.items() if name in _KEPT},
    **ALIASES,
    "config": "JITKernelApp.config_file",
}


class JITKernelApp(IPKernelApp):
    """One kernel process.  `launch` runs it to its end."""

    name = "jitkernel"
    description = """The jitkernel Jupyter kernel: LLVM IR cells in one growing program.

    A Jupyter client starts it; to use it from a terminal: jitkernel console."""
    version = Unicode(__version__)
    examples = "python -m jitkernel.kernel --O3 --Arena.capacity=256M"

    kernel_class = Type(JITKernel, klass="ipykernel.kernelbase.Kernel")  # type: ignore[assignment]
    classes: list[Any] = [JITKernel, Arena, Session, Compiler, Executor, ObjectCache]
    aliases = OWN_ALIASES
    flags = {
        **dict(Application.flags),
        **FLAGS,
        "quiet": ({"Application": {"log_level": logging.CRITICAL}}, "log nothing"),
        "generate-config": (
            {"JITKernelApp": {"generate_config": True}},
            "write a configuration file with every setting and its default, then end",
        ),
    }
    subcommands: dict[str, Any] = {}

    generate_config = Bool(False, help="Write a default configuration file and end.").tag(
        config=True
    )
    config_file = Unicode("", help="One configuration file to read besides the usual ones.").tag(
        config=True
    )
    # What the process itself writes to descriptors 1 and 2 would carry a wrong parent header.
    capture_fd_output = Bool(False)
    # Nor do this process's own sys.stdout and sys.stderr belong to any cell.
    outstream_class = DottedObjectName(None, allow_none=True)

    # The session that began before this module was imported.
    jit_session: Any = AnyTrait()

    @classmethod
    def launch(cls, session: EarlySession) -> None:
        """Run a kernel until it is shut down."""
        app = cls.instance(jit_session=session)
        try:
            app.initialize()
            app.start()
            if app.control_thread is not None:
                # It is still sending its last messages; the sockets must not close before.
                app.control_thread.join(timeout=1)
        finally:
            app.jit_session.close()

    # -- configuration ---------------------------------------------------------------------

    @default("profile_dir")
    def _no_profile(self) -> None:
        return None

    @default("session")
    def _wire_session(self) -> Session:
        return Session(parent=self)

    def init_profile_dir(self) -> None:
        """No IPython profile."""

    def init_config_files(self) -> None:
        """Nothing is staged.  `--generate-config` ends here, before any file is read."""
        if self.generate_config:
            self.write_default_config()
            self.exit(0)

    def load_config_file(self, *args: Any, **kwargs: Any) -> None:
        """Read our own configuration files; one that cannot be read is named and skipped."""
        if self.config_file:
            if not os.path.isfile(self.config_file):
                self.log.error("no such configuration file: %s", self.config_file)
                self.exit(1)
            folder, name = os.path.split(os.path.abspath(self.config_file))
            Application.load_config_file(self, name, folder)
        Application.load_config_file(self, CONFIG_NAME, jupyter_config_path())

    def write_default_config(self) -> None:
        """Write `jitkernel_config.py`, unless it is there."""
        path = Path(self.config_file or Path(jupyter_config_dir(), CONFIG_NAME + ".py"))
        if path.exists():
            print(f"{path} is there already; nothing was written", file=sys.__stderr__)
            self.exit(1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.generate_config_file(list(self.classes)), encoding="utf-8")
        print(f"wrote {path}", file=sys.__stdout__)

    # -- what IPython would set up ---------------------------------------------------------

    def init_pdb(self) -> None:
        """No debugger of Python code.

        It is the first step once the configuration is complete: `--show-config` ends here.
        """
        if self.show_config or self.show_config_json:
            self.start()
            self.exit(0)

    def init_path(self) -> None:
        """The notebook's folder does not belong on this process's path."""

    def init_gui_pylab(self) -> None:
        """No GUI."""

    def init_iopub(self, context: Any) -> None:
        """IPKernelApp's, with our thread."""
        ipykernel.kernelapp.IOPubThread = SubscribedIOPubThread  # type: ignore[attr-defined]
        try:
            super().init_iopub(context)
        finally:
            ipykernel.kernelapp.IOPubThread = IOPubThread  # type: ignore[attr-defined]

    # -- start -----------------------------------------------------------------------------

    def init_signal(self) -> None:
        """SIGINT interrupts the cell that runs and is harmless otherwise, at any time."""
        loop = self.control_thread.io_loop.asyncio_loop

        def on_sigint(*_: Any) -> None:
            # Not from here: the main thread may hold a lock that an interrupt takes.
            if self.kernel is not None and not loop.is_closed():  # it ends: nothing runs any more
                loop.call_soon_threadsafe(self.kernel.interrupt)

        signal.signal(signal.SIGINT, on_sigint)

    def init_kernel(self) -> None:
        super().init_kernel()
        found = settings.sections(self.config)
        self.jit_session.begin(settings.session_settings(found))
