"""The command line: `jitkernel install | run | console | doctor | tour`.

Imports as little as possible: `--help`, `--version` and `doctor` work on any machine.
Start from `main`.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from pathlib import Path

from jitkernel._version import __version__


def install(arguments: argparse.Namespace) -> int:
    from jitkernel.kernel.install import install as copy

    where = "prefix" if arguments.prefix else "sys-prefix" if arguments.sys_prefix else "user"
    try:
        target = copy(where, arguments.prefix or "")
    except OSError as error:
        print(f"jitkernel install: {error}", file=sys.stderr)
        return 1
    print(f"kernel installed in {target}")
    return 0


def run(arguments: argparse.Namespace) -> int:
    from jitkernel.kernel.terminal import run_file

    words = arguments.arguments
    return run_file(Path(arguments.file), arguments.session, arguments.trust, words)


def console(arguments: argparse.Namespace) -> int:
    from jitkernel.kernel.terminal import console as start

    return start(arguments.rest)


def doctor(arguments: argparse.Namespace) -> int:
    from jitkernel.kernel.doctor import examine, report

    findings = examine()
    print(report(findings))
    return 1 if any(f.state == "missing" for f in findings) else 0


def tour(arguments: argparse.Namespace) -> int:
    from jitkernel.kernel.tour import tour as start

    return start(Path(arguments.notebook) if arguments.notebook else None, update=arguments.update)


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="jitkernel",
        description="A Jupyter kernel for incremental JIT sessions of LLVM IR and C.",
    )
    root.add_argument("--version", action="version", version=f"jitkernel {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = commands.add_parser(
        "install", help="make the kernel visible to Jupyter",
        description="Make the kernels visible to Jupyter: for this user, if nothing else is said.",
    )  # fmt: skip
    where = command.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for every Jupyter of this user")
    where.add_argument("--sys-prefix", action="store_true", help="for this environment's Jupyter")
    where.add_argument("--prefix", metavar="PATH", help="for the Jupyter installed under PATH")
    command.set_defaults(call=install)

    command = commands.add_parser(
        "run", help="run a file of IR, C or Kaleidoscope, or a notebook",
        description="Run a file as one cell, then the main function that it defines; or the cells "
        "of a notebook. The status is main's, else 0 if nothing failed.",
    )  # fmt: skip
    command.add_argument(
        "file", metavar="FILE",
        help="FILE.ll, FILE.c, FILE.ks, FILE.ipynb, or a file of a language that was added",
    )  # fmt: skip
    command.add_argument(
        "arguments", metavar="ARGUMENT", nargs="*", default=[],
        help="what the file's main function gets; behind -- where they begin with a dash",
    )  # fmt: skip
    command.add_argument(
        "--session", metavar="SESSION", default="",
        help="go on with the session in this file, and save to it",
    )  # fmt: skip
    command.add_argument(
        "--trust", action="store_true", help="load the libraries that the session's file names"
    )
    command.set_defaults(call=run)

    command = commands.add_parser(
        "console", help="the kernel in this terminal",
        description="The kernel in this terminal. Other options are those of jupyter console.",
    )  # fmt: skip
    command.set_defaults(call=console)

    command = commands.add_parser(
        "doctor", help="what this machine offers and what is missing",
        description="Say what this machine offers, what is missing, and the remedy for each. The "
        "status is 1 where something is missing without which the kernel cannot run.",
    )  # fmt: skip
    command.set_defaults(call=doctor)

    command = commands.add_parser(
        "tour", help="run the tour through the kernel and check it",
        description="Run the tour's notebook through the kernel and compare its outputs with those "
        "that it has. The status is 1 where one differs.",
    )  # fmt: skip
    command.add_argument(
        "notebook", metavar="NOTEBOOK", nargs="?", help="another notebook to run and check"
    )
    command.add_argument(
        "--update", action="store_true", help="store the outputs that come in the notebook"
    )
    command.set_defaults(call=tour)
    return root


def main(argv: list[str] | None = None) -> int:
    """Run one command; its exit status."""
    root = parser()
    # (argparse.REMAINDER takes no option that comes first.)
    arguments, rest = root.parse_known_args(argv)
    arguments.rest = rest
    if rest and arguments.call is not console:
        root.error(f"unrecognized arguments: {' '.join(rest)}")
    if arguments.call in (run, console, tour):
        from jitkernel._platform import platform_message

        message = platform_message()
        if message:
            print(message, file=sys.stderr)
            return 1
    try:
        return int(arguments.call(arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    atexit.register(gc.freeze)  # as in jitkernel/kernel/__main__.py
    sys.exit(main())
