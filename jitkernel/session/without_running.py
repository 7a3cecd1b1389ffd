"""Definitions that are compiled and placed without running a statement.

Start from `compile_only`, `place_only`; `run_many` does both for many cells at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.compiler import Compiled, Request, Summary
from jitkernel.errors import ArenaFull, CompileError, Diagnostic, LinkError
from jitkernel.files import read_bytes
from jitkernel.languages.llvm import Plan, parse_cell
from jitkernel.session.change import title
from jitkernel.session.definer import Definer
from jitkernel.session.full import explain_full
from jitkernel.session.options import CellOptions
from jitkernel.session.result import Result

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["compile_only", "place_file", "place_object", "place_only", "run_many"]


def compile_only(
    runner: Definer, source: str
) -> tuple[Request, Compiled, dict[str, int], CellOptions]:
    """Compile definitions; the request, the result, sizes per zone, the options."""
    plan = _definitions(source)
    _, request = runner.request(plan, "entities")
    compiled = runner.compile(request, plan.source)
    return request, compiled, runner.program.linker.sizes(compiled.object), runner.options


def place_only(
    runner: Definer, source: str, request: Request, compiled: Compiled, construct: bool = True
) -> Result:
    """Place what was compiled before, as a cell; without `construct` its constructors never run."""
    before, runner.session.sink = runner.session.sink, runner
    try:
        runner.session.number = runner.cell.number
        with runner.changing(title(runner.cell.number, source)):
            runner.place(request, compiled, source)
            if construct:
                runner.construct()
            else:
                runner.leave_unconstructed()
            runner.session.history.keep(runner.change)
        runner.say_status()
        runner.result.cell = runner.cell
        return runner.result
    except ArenaFull as error:
        raise explain_full(runner.session, error) from None
    finally:
        runner.session.sink = before


def place_object(runner: Definer, path: str, data: bytes) -> Result:
    """Place an object that another compiler made."""
    request = Request(f"; {path}", label=path)
    times = dict.fromkeys(("parse", "verify", "optimise", "emit"), 0)
    return place_only(runner, f"; %link {path}", request, Compiled(data, Summary(), times))


def place_file(definer: Definer, path: str) -> Result:
    """Place the object that is in a file; see `Session.link`."""
    data = read_bytes(path)
    if data.startswith(b"!<arch>\n"):
        raise LinkError(
            f"{path} is an archive, and archives are not supported yet; extract its "
            "members (ar x) and %link those, or load a shared library with %lib"
        )
    if data[:4] == b"\x7fELF" and data[16:18] == b"\3\0":
        raise LinkError(f"{path} is a shared library: %lib {path} loads it")
    return place_object(definer, path, data)


def run_many(session: Core, sources: Sequence[str], options: CellOptions) -> list[Result]:
    """Compile in parallel, place in order."""
    plans = [_definitions(s) for s in sources]
    first = Definer(session, options=options)
    requests: list[Request] = []
    soon: set[str] = set()
    for plan in plans:
        _, request = first.request(plan, "entities")
        # What an earlier one of them will have defined is no library's.
        nobuiltin = request.nobuiltin | (plan.declares & soon)
        requests.append(replace(request, nobuiltin=nobuiltin))
        soon |= plan.defines
    compiles = session.engine.pool.compile_many(requests)
    results: list[Result] = []
    done: set[str] = set()
    for plan, source, request, compiled in zip(plans, sources, requests, compiles, strict=True):
        runner = Definer(session, options=options)
        if (plan.uses - plan.declares) & done:
            # It uses what earlier ones define and says nothing of their types.
            _, request = runner.request(plan, "entities")
            compiled = runner.compile(request, source)
        elif isinstance(compiled, CompileError):
            raise first.explained(compiled, source)
        results.append(place_only(runner, source, request, compiled))
        done |= plan.defines
    return results


def _definitions(source: str) -> Plan:
    plan = parse_cell(source)
    if plan.actions or plan.magics or plan.cell_magic or not plan.entities:
        words = "only definitions can be compiled without running: no statements, no magics"
        raise CompileError([Diagnostic(words)])
    return plan
