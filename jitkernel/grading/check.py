"""Grading: the same inputs for a student's function and for the reference.  Start from `check`.

Both run in the executor under the settings' limits.  The first input on which they differ is made
as simple as possible and told with both answers; faults and loops without end are answers too.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jitkernel.errors import CheckFailed, Fault, Interrupted, JitError, UsageError
from jitkernel.grading.exercise import REFERENCE, Exercise, find_exercise
from jitkernel.grading.inputs import Kind, chosen, filled, smaller, told, written_call
from jitkernel.grading.memory import Memory
from jitkernel.grading.rules import Finding, read_rule
from jitkernel.grading.subject import Subject
from jitkernel.grading.variables import Variables
from jitkernel.ir.names import bare, written
from jitkernel.ir.types import FunctionType, IntType
from jitkernel.session.operation import operation
from jitkernel.session.program.signatures import Signature
from jitkernel.session.run.calls import Scratch
from jitkernel.session.run.results import Collector
from jitkernel.tracebacks import of_user
from jitkernel.values.c import function_in_c
from jitkernel.values.python import Pointer
from jitkernel.values.value import TypedValue
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

#: Seconds that one call may take where `Executor.cell_timeout` does not say, and how many times as
#: long all calls of a check.
PATIENCE, ALL = 2.0, 10
_ATTEMPTS = 120  # calls spent on making a counterexample simpler
_PRINTED = 2000  # bytes of a call's output that are kept
_NOWHERE = "a pointer into no argument"
_BESIDE = ("read ", "wrote ")


@dataclass(frozen=True, slots=True)
class Report:
    """A check that was passed: how many inputs gave the right answer, and what each rule found.

    `called` is the function as the user writes it.
    """

    exercise: Exercise
    function: str
    inputs: int
    found: tuple[str, ...]
    called: str


def check(
    session: Session, exercise: Exercise | str, function: str = "", folder: str = ""
) -> Report:
    """Grade a function of the session, by default the one that the exercise names.

    Raises CheckFailed with the first counterexample or the rules that are broken, UsageError where
    there is no such exercise, Interrupted when the user ends it.  The session's cells, results and
    undo history stay as they were; globals that the function writes do not, but for those that are
    the exercise's inputs.
    """
    if isinstance(exercise, str):
        exercise = find_exercise(exercise, folder)
    name = bare(function or exercise.function)
    inputs, findings = _grade(session, exercise, name)
    called = session.inspect.program.called(name)
    broken = [
        f"{called}: {finding.found}, but the exercise asks for: {read_rule(rule).demand}"
        for rule, finding in zip(exercise.rules, findings, strict=True)
        if not finding.holds
    ]
    if broken:
        lines = [*broken, f"All {inputs} inputs gave the right answer.", *_hint(exercise)]
        raise CheckFailed("\n".join(lines))
    return Report(exercise, name, inputs, tuple(f.found for f in findings), called)


@operation()
def _grade(session: Session, exercise: Exercise, name: str) -> tuple[int, list[Finding]]:
    """Count the inputs that give the right answer, and collect what the rules find."""
    signature = _check_type(session, exercise, name)
    with (
        Scratch(session.frontend.core, "the check") as scratch,
        scratch.engine.measured(),
        scratch.limited(PATIENCE) as limit,
    ):
        address, text = scratch.function(exercise.reference, REFERENCE)
        memory, variables = Memory(scratch, exercise.kinds), Variables(scratch, text)
        try:
            subject = Subject(session, scratch, name, signature, memory.used)
            trial = _Trial(scratch, exercise, subject, address, limit, memory, variables)
            inputs = _check_inputs(trial, exercise, session.inspect.program.called(name))
        finally:
            variables.end()
            memory.release()
    return inputs, [read_rule(rule).apply(session, name) for rule in exercise.rules]


def _check_type(session: Session, exercise: Exercise, name: str) -> Signature:
    symbol = session.symbols.get(name)
    wanted, called = exercise.signature, session.inspect.program.called(name)
    asked = f"the exercise {exercise.name} asks for {prototype(session, name, wanted)}"
    if symbol is None or not symbol.defined:
        raise CheckFailed(f"{called} is not defined; {asked}")
    info = session.inspect.signature(name)
    # The convention and how small integers are extended are the student's own affair.
    if not isinstance(info, Signature) or info.type != str(wanted):
        there = symbol.type
        if isinstance(info, Signature) and called != written(name):
            there = prototype(session, name, info.function)
        raise CheckFailed(f"{called} is {there}, but {asked}")
    return info


def prototype(session: Session, name: str, type: FunctionType) -> str:
    """A function with its type, as the user's language writes both."""
    called = session.inspect.program.called(name)
    in_c = "" if called == written(name) else function_in_c(called, type).rstrip(";")
    return in_c or f"{called}: {type}"


def _check_inputs(trial: _Trial, exercise: Exercise, called: str) -> int:
    """Count the inputs that give the right answer; raise CheckFailed at the first that does not."""
    done, began = 0, time.monotonic()
    trial.variables.begin()
    for values in (*exercise.tries, *chosen(exercise.kinds, exercise.samples, exercise.seed)):
        if time.monotonic() - began > trial.limit * ALL:
            raise CheckFailed(f"{called} is too slow: {done} inputs took {trial.limit * ALL:g} s")
        complaint = trial.complaint(values)
        if complaint:
            values, complaint = _simplest(trial, exercise.kinds, values, complaint)
            call = written_call(called, exercise.kinds, values)
            first, *rest = complaint.split("\n")
            lines = [f"{call}: {first}", *rest]
            if done:
                lines.append(f"{counted(done, 'input')} before it gave the right answer.")
            raise CheckFailed("\n".join([*lines, *_hint(exercise)]), call)
        done += 1
    return done


def _hint(exercise: Exercise) -> list[str]:
    return [f"hint: {exercise.hint}"] if exercise.hint else []


def _simplest(
    trial: _Trial, kinds: tuple[Kind, ...], values: tuple[Any, ...], complaint: str
) -> tuple[tuple[Any, ...], str]:
    """A simpler input on which the function is wrong too, with what is wrong there."""
    if trial.slow:
        return values, complaint  # each attempt would take as long again
    first = trial.afresh(values)
    if not first:
        return values, complaint  # it takes what the calls before it have left
    complaint, attempts = first, 0
    while True:
        for simpler in smaller(kinds, values):
            attempts += 1
            if attempts > _ATTEMPTS:
                return values, complaint
            found = trial.afresh(simpler)
            if found and not trial.slow:
                values, complaint = simpler, found
                break
        else:
            return values, complaint


class _Printed(Collector):
    """The sink of a check: the first bytes of what is printed, of both streams in `out`."""

    def output(self, name: str, data: bytes) -> None:
        self.out += data[: _PRINTED - len(self.out)]


@dataclass(frozen=True, slots=True)
class _Answer:
    """A call's outcome: its value, what it left in the arguments' memory, and both in words."""

    value: Any
    left: tuple[Any, ...]
    text: str
    memory: str


@dataclass(slots=True)
class _Trial:
    """Runs one input through both functions.  `slow` says that the last call took too long."""

    scratch: Scratch
    exercise: Exercise
    subject: Subject
    reference: int  # its address
    limit: float  # seconds that a call may take
    memory: Memory
    variables: Variables
    slow: bool = False

    def afresh(self, values: tuple[Any, ...]) -> str:
        """As `complaint`, of a call that is the first."""
        self.variables.begin()
        return self.complaint(values)

    def complaint(self, values: tuple[Any, ...]) -> str:
        """The fault of the student's answer and what it printed; empty where it is right."""
        printed, before = _Printed(), self.variables.now()
        words = self._wrong(values, printed, before)
        if not words:
            return ""
        state = [f"before the call: {self.variables.told(before)}"] if before else []
        return "\n".join([words, *state, *_said(printed)])

    def _wrong(self, values: tuple[Any, ...], printed: _Printed, before: Sequence[bytes]) -> str:
        """Say what is wrong.  Where memory matters: of the function as written, with what
        pointers lead to at the end of its memory, and as compiled, at the beginning."""
        expected, twice = self._call_reference(values), self.subject.has_written
        if twice and (words := self._wrong_there(values, expected, printed, as_written=True)):
            again = ""
            for at_end in (True, False):  # what lies beside is told rather than what it has led to
                self.variables.put(before)
                found = self._wrong_there(values, expected, printed, at_end)
                if found.startswith(_BESIDE):
                    return found
                again = again or found
            return again or f"{words.splitlines()[0]} (without passes)"
        self.variables.put(before)
        return self._wrong_there(values, expected, printed, at_end=not twice)

    def _wrong_there(
        self,
        values: tuple[Any, ...],
        expected: _Answer,
        printed: _Printed,
        at_end: bool = True,
        as_written: bool = False,
    ) -> str:
        tolerance = self.exercise.tolerance
        self.slow = False
        arguments = self._arguments(values, at_end)
        began = time.monotonic()
        try:
            value = self.subject.call(arguments, printed, as_written)
        except Interrupted as error:
            self.slow = time.monotonic() - began >= self.limit
            if not self.slow:
                raise
            words = f"did not come back within {self.limit:g} s; expected {expected.text}"
            return f"{words}\n{error.lost}".rstrip()
        except Fault as error:
            first, *rest = str(error).split("\n")
            words = f"{type(error).__name__}: {first}; expected {expected.text}"
            if error.signal == "SIGSEGV" and (beside := self.memory.beside(error.address)):
                words = f"{'wrote' if 'write' in first else 'read'} {beside}"
            return "\n".join([words, *rest])
        except Exception as error:
            if id(error) != self.scratch.core.raised:
                raise
            return f"{_raised(error)}; expected {expected.text}"
        found, outside = self._answer(value)
        if outside:
            return f"wrote {outside}"
        if not _same(expected.value, found.value, tolerance):
            return f"expected {expected.text}, got {found.text}"
        if not _same(expected.left, found.left, tolerance):
            return f"expected to leave {expected.memory}, left {found.memory}"
        return self.variables.wrong()

    def _call_reference(self, values: tuple[Any, ...]) -> _Answer:
        type = Signature(self.exercise.type, "", "", "", self.exercise.type)
        arguments = self._arguments(values, at_end=True)
        result = self.scratch.call_at(self.reference, type, arguments)
        if result is None:
            call = written_call(written(self.exercise.function), self.exercise.kinds, values)
            raise JitError(f"the reference of {self.exercise.name} was stopped at {call}")
        answer, _ = self._answer(result)
        if answer.text == _NOWHERE:
            raise UsageError(
                f"the reference of {self.exercise.name} returned {_NOWHERE}; no other is compared"
            )
        return answer

    def _arguments(self, values: tuple[Any, ...], at_end: bool) -> list[Any]:
        """The arguments of a call: what pointers lead to written afresh, lengths filled in."""
        given = [value for _, value in filled(self.exercise.kinds, values)]
        return self.memory.place(given, at_end)

    def _answer(self, result: TypedValue) -> tuple[_Answer, str]:
        """The outcome of a call, with its words: the value, else the memory that it left; and where
        it wrote beside that."""
        left, outside = self.memory.after()
        memory = ", ".join(told(kind, value) for kind, value in left) or "nothing"
        type = self.exercise.signature.result
        if isinstance(type, IntType):  # `unsigned` is a type of C's, and the bits are the same
            result = replace(result, seen=None)
        value = result.python
        if result.is_void:
            text = memory
        elif isinstance(value, Pointer):
            value, text = self._place(value)
        elif isinstance(value, tuple):
            text = result.value_text()
        else:
            bits = type.bits if isinstance(type, IntType) else 0
            text = told(Kind("int", bits, unsigned=self.exercise.unsigned), value)
        return _Answer(value, tuple(value for _, value in left), text, memory), outside

    def _place(self, pointer: Pointer) -> tuple[Any, str]:
        """A pointer as the argument that it leads into, and where: `argument #1 + 8 bytes`."""
        if not pointer:
            return None, "null"
        found = self.memory.within(pointer)
        if found is None:
            return pointer, _NOWHERE
        return found, "argument #{} + {} bytes".format(*found)


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(
            _same(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)
    return bool(one == other)


def _raised(error: Exception) -> str:
    """The words for an exception of a function of Python's, with the user's place that raised it:
    there is none where what it returned is refused."""
    frames = traceback.extract_tb(of_user(error.__traceback__))
    place = f" (in {frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _said(printed: _Printed) -> list[str]:
    """The lines that the call printed, for whoever looks for a fault by printing."""
    if not printed.out:
        return []
    lines = printed.out.decode("utf-8", "replace").splitlines()[:20]
    return ["It printed:", *(f"  {line}" for line in lines)]
