"""What can be seen of a program that stands: frames, variables, expressions.  Start from `View`.

A view is of one stop: it goes when the program goes on, and with it the references of what it has
shown.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.elf import dwarf
from jitkernel.elf.dwarf import Local, locate
from jitkernel.errors import JitError, UsageError
from jitkernel.linker.backtrace import StackFrame
from jitkernel.session.debugging import values
from jitkernel.session.debugging.callables import function_value
from jitkernel.session.debugging.code import Code, Place
from jitkernel.session.debugging.entry_values import AtCall, at_call, entry_value
from jitkernel.session.debugging.expressions import Context, converted, evaluate, is_true
from jitkernel.session.debugging.frames import LiveFrame, name_of, stack
from jitkernel.session.debugging.own_names import own_names
from jitkernel.session.debugging.records import Frame, Scope, Variable, register
from jitkernel.session.debugging.session_variables import global_value, global_variables
from jitkernel.session.debugging.setting import assign, with_bits
from jitkernel.session.debugging.values import OPTIMISED_OUT, Value
from jitkernel.session.debugging.vectors import Vectors
from jitkernel.session.program.signatures import Signature
from jitkernel.values.datatype import DataType, number
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.linker import Symbol
    from jitkernel.session.core import Core

__all__ = ["NOT_YET", "Memory", "View"]

NOT_YET = "<not yet>"
_OWN = ("__jk", "__vla_expr")  # what nobody has written: ours, and clang's lengths of arrays
_RET = b"\xc3"
LOOPED = "<changed in a loop, perhaps not up to date>"
LATE = "<in memory, perhaps not up to date>"
RED_ZONE = 128  # bytes below the stack pointer that are the function's (psABI 3.2.2)


class Memory(NamedTuple):
    """The ways to read and write memory of the program: bytes at an address."""

    read: Callable[[int, int], bytes]
    write: Callable[[int, bytes], None]


class Calling(NamedTuple):
    """The ways to run code on the thread that stands: call a function, and ask where its copy of a
    thread-local variable is."""

    call: Callable[[Value, list[Value]], Value]
    copy_of: Callable[[Symbol], int]


class _Held(NamedTuple):
    """The meaning of a reference: the locals or registers of a frame, the session's globals, or the
    parts of a value, whose expression that is."""

    kind: str
    frame: int
    value: Value | None = None
    expression: str = ""


class View:
    """One stop; `registers` are the stopped thread's, which `set_variable` may change, and `top` is
    where its stack begins."""

    def __init__(self, core: Core, code: Code, registers: dict[str, int], top: int, memory: Memory):
        self._core, self._code, self._top, self._memory = core, code, top, memory
        self.registers = registers
        self.edited = False  # something was set
        self.chosen = 0  # the frame that is looked at
        self.context = 0  # where the stopped thread's ucontext is, 0 where there is none
        self._held: list[_Held] = []
        # Where the stopped thread's copy of a thread-local variable is; raises UsageError.
        self.copy_of: Callable[[Symbol], int] = core.engine.copies.find

    # -- frames --------------------------------------------------------------------------------

    @cached_property
    def live(self) -> list[LiveFrame]:
        """The frames with all that is known of them; those of the executor's runtime are none."""
        linker = self._core.program.linker
        found = stack(self.registers, self._top, self._memory.read, linker, self._code)
        is_thunk = self._core.places.is_thunk
        return [frame for frame in found if not is_thunk(frame.pc)] or found[:1]

    @cached_property
    def _first(self) -> LiveFrame:
        """The innermost frame: the others take time to find, and a condition needs none."""
        if "live" in self.__dict__:
            return self.live[0]
        pc, base = self.registers["rip"], self.registers["rbp"]
        place = self._code.at(pc)
        if place is not None and pc >= place.function.body and self._memory.read(pc, 1) != _RET:
            # It has its frame pointer: no table is needed to know the frame.
            frame = StackFrame(pc, self.registers["rsp"], base + 16, base + 8, {}, True)
            return LiveFrame(pc, self.registers, frame, place, True)
        linker = self._core.program.linker
        return stack(self.registers, self._top, self._memory.read, linker, self._code, 1)[0]

    @property
    def is_within(self) -> bool:
        """True if it stands in code that somebody wrote, or in a library."""
        return not self._core.places.is_thunk(self.registers["rip"])

    def frames(self, source_of: Callable[[str], tuple[str, int]]) -> list[Frame]:
        """The frames, innermost first; `source_of` gives the whole text of a cell of which the
        session has a part, and how many lines are above that."""
        found = []
        for index, live in enumerate(self.live):
            name, text, line, cell = name_of(self._core, live), "", 0, 0
            if (place := live.place) is not None:
                (text, above), cell = source_of(place.part.source), place.part.image.cell
                line = place.line + above if place.line else 0
            elif not live.frame.library and (owner := self._core.places.owner(live.at)):
                cell = owner[0]
                line = self._core.places.line(live.at).line
                ran = (r for i, _, r in self._core.places.lines.running if i.cell == cell)
                record = next(ran, None) or self._core.store.get(cell)
                text, above = source_of(record.source) if record is not None else ("", 0)
                line = line + above if line else 0
            library = name if live.frame.library else ""
            inlined = place is not None and place.inlined
            optimised = place is not None and not place.part.info.keeps_frame(place.function)
            found.append(Frame(index, name, text, line, live.pc, cell, library, inlined, optimised))
        return found

    def is_told(self, live: LiveFrame) -> bool:
        """True if somebody has written a frame's code: not what calls a cell's expressions."""
        if live.place is not None:
            return bool(live.place.line)
        owner = self._core.places.owner(live.at)
        return owner is not None and not self._core.places.name(live.at).startswith("cell ")

    @property
    def within_line(self) -> bool:
        """True if the innermost frame is at a line whose beginning is behind it."""
        live = self.live[0] if self.live else None
        if live is None or live.place is None or not live.place.line:
            return False
        row = live.place.part.info.row(live.pc)
        return row is not None and row.start != live.pc

    def frame(self, index: int) -> LiveFrame:
        """One frame.  Raises UsageError where there is none."""
        if not index:
            return self._first
        if not 0 <= index < len(self.live):
            raise UsageError(f"there is no frame {index}: there are {len(self.live)}, from 0 on")
        return self.live[index]

    # -- variables -----------------------------------------------------------------------------

    def scopes(self, index: int) -> list[Scope]:
        """The parts of what a frame has."""
        live, found = self.frame(index), []
        if live.place is not None:
            found.append(Scope("Locals", self._hold(_Held("locals", index))))
        found.append(Scope("Globals", self._hold(_Held("globals", index)), expensive=True))
        found.append(Scope("Registers", self._hold(_Held("registers", index))))
        return found

    def _hold(self, held: _Held) -> int:
        self._held.append(held)
        return len(self._held)

    def _named(self, reference: int) -> _Held:
        if not 0 < reference <= len(self._held):
            raise UsageError(
                f"reference {reference} is of another stop: ask for the scopes of this one"
            )
        return self._held[reference - 1]

    def variables(self, reference: int, start: int = 0, count: int = 0) -> list[Variable]:
        """The variables that a reference stands for: all of them, or `count` of its parts from
        `start` on."""
        held = self._named(reference)
        match held.kind:
            case "registers":
                return [register(n, v) for n, v in self.frame(held.frame).registers.items()]
            case "globals":
                return self.globals(held.frame)
            case "locals":
                found = [self._shown(n, v, n, held.frame) for n, v in self.locals(held.frame)]
                return found[start : start + count] if count else found[start:]
        value = held.value
        if value is None:
            return []
        parts = values.children(value, self._memory.read, start, count)
        return [
            self._shown(part.name, part.value, part.expression(held.expression), held.frame)
            for part in parts
        ]

    def locals(self, index: int) -> list[tuple[str, Value]]:
        """The variables of a frame, the parameters first."""
        live = self.frame(index)
        if (place := live.place) is None:
            return []
        found = [*self._code.locals(place, live.at).values()]
        found = [local for local in found if not local.name.startswith(_OWN)]
        values = [(local.name, self._value(local, live, place)) for local in found]
        return (own_names(values, self._memory.read) if place.part.marked else None) or values

    def _value(self, local: Local, live: LiveFrame, place: Place) -> Value:
        ir = local.name.startswith("%")
        try:
            length = partial(self._length, live, place)
            type = place.part.types.of(local, self._core.program.state.types, length)
        except JitError as error:  # of too many parts
            return Value(number("u8"), missing=f"<{error}>")
        if not local.defined and place.part.info.keeps_frame(place.function):
            return Value(type, ir=ir, missing=NOT_YET)
        registers, read = live.registers, self._memory.read
        cfa = live.frame.stop if live.frame.certain else None

        def entry(register: str) -> int | None:
            return entry_value(self.live, live, read)(register) if local.sure else None

        if local.sure and not live.exact:
            registers = AtCall(registers, at_call(self.live, live, read))
        where = locate(local, live.at, registers, read, cfa, entry)
        if where is None:
            return Value(type, ir=ir, missing=OPTIMISED_OUT)
        if local.annotated and not place.part.info.keeps_frame(place.function):
            return Value(type, ir=ir, missing=LOOPED)
        if where.kind == "memory" and may_be_late(local, place):
            return Value(type, ir=ir, missing=LATE)
        if where.kind == "memory":
            return Value(type, where.address, ir=ir, place=where)
        if live.exact:
            registers = ChainMap(dict(registers), self._vectors)
        found = values.value_at(type, where, registers, read, ir)
        return found if found.missing else replace(found, place=where)

    def _length(self, live: LiveFrame, place: Place, name: str) -> int:
        """The value of the variable that says how long an array is; -1 where it is not known."""
        local = self._code.locals(place, live.at).get(name)
        data = None
        if local is not None:
            data = values.bytes_of(self._value(local, live, place), self._memory.read)
        return int.from_bytes(data, "little", signed=True) if data else -1

    @cached_property
    def _vectors(self) -> dict[str, int]:
        """The vector registers of the innermost frame, as far as they are known."""
        return Vectors.of(self._memory.read, self.context).registers

    def globals(self, index: int = 0) -> list[Variable]:
        """The session's variables."""
        found = global_variables(self._core, self.copy_of)
        return [self._shown(name, value, name, index) for name, value in found]

    def _shown(self, name: str, value: Value, expression: str, frame: int) -> Variable:
        read = self._memory.read
        text = values.shown(value, read, self.describe)
        named, indexed = values.counts(value, read)
        reference = 0
        if named or indexed:
            reference = self._hold(_Held("value", frame, value, expression))
        return Variable(
            name, text, values.type_text(value), reference, named, indexed, expression,
            value.address or 0,
        )  # fmt: skip

    def describe(self, address: int) -> str:
        """The form of a pointer in a value of IR: `@g+4`, `0x7ffd12 (stack of @f)`."""
        stack = self.stack_of(address)
        return f"{address:#x} ({stack})" if stack else self._core.places.describe(address)

    def stack_of(self, address: int) -> str:
        """`stack of @f` for an address in a frame that lives, else the empty string."""
        if not self.registers or not self.registers["rsp"] - RED_ZONE <= address < self._top:
            return ""
        frame = next((f for f in self.live if address < f.frame.stop), None)
        return f"stack of {name_of(self._core, frame)}" if frame is not None else "stack"

    # -- expressions ---------------------------------------------------------------------------

    def evaluate(self, text: str, index: int = 0, calls: Calling | None = None) -> Variable:
        """The value of an expression in a frame; one that sets something changes it, and where
        there are `calls` functions are called.  Raises UsageError."""
        context, copy_of = self._context(index), self.copy_of
        if calls is not None:
            self.copy_of = calls.copy_of
            context = replace(
                context, call=calls.call, names=partial(self._name_or_function, index)
            )
        try:
            value = evaluate(text, context)
        finally:
            self.copy_of = copy_of
        return self._shown(text.strip(), value, text.strip(), index)

    def value(self, text: str, index: int = 0) -> Value:
        """The value of an expression in a frame, with its place; it cannot set anything.  Raises
        UsageError."""
        return evaluate(text, replace(self._context(index), write=None))

    def meant(self, reference: int, name: str) -> tuple[str, int]:
        """The expression of one of the variables that a reference stands for, and its frame."""
        held = self._named(reference)
        found = next((v for v in self.variables(reference) if v.name == name), None)
        if found is None:
            raise UsageError(f"nothing here is called {name}")
        return found.expression, held.frame

    def without_frames(self) -> View:
        """A view where nothing stands."""
        return View(self._core, self._code, {}, 0, self._memory)

    def truth(self, text: str, index: int = 0) -> bool:
        """True if a condition holds in a frame.  Raises UsageError."""
        context = self._context(index)
        return is_true(evaluate(text, context), context)

    def text(self, expression: str) -> str:
        """An expression's value, or why it has none."""
        try:
            return self.evaluate(expression).value
        except UsageError as error:
            return f"<{error}>"

    def _context(self, index: int) -> Context:
        place = self.frame(index).place if self.registers else None  # else of no frame
        types = place.part.types if place is not None else None

        def named(name: str) -> DataType | None:
            found = types.named(name) if types is not None else None
            return found or self._core.prototypes.type_called(name)

        return Context(
            partial(self._name, index), self._memory.read, named, partial(self._write, index),
            near=partial(self._near, index),
        )  # fmt: skip

    def _near(self, index: int, name: str) -> str:
        """Words on a name that no variable has: its function, or the name most like it."""
        symbol = self._core.program.named(name.removeprefix("@"))
        if symbol is not None and isinstance(symbol.info, Signature):
            return f": {name} is a function"
        own = self.locals(index) if self.registers else []
        known = [*own, *global_variables(self._core, self.copy_of)]
        return did_you_mean(name, [called for called, _ in known])

    def _name(self, index: int, name: str) -> Value | None:
        if not self.registers:
            return global_value(self._core, name.removeprefix("@"), self.copy_of)
        live = self.frame(index)
        if (place := live.place) is not None:
            if (local := self._code.locals(place, live.at).get(name)) is not None:
                return self._value(local, live, place)
            if (constant := place.part.types.enumerator(name)) is not None:
                type, number_ = constant
                data = number_.to_bytes(type.bare.size, "little", signed=number_ < 0)
                return Value(type, data=data)
            if place.part.marked and (own := dict(self.locals(index)).get(name)) is not None:
                return own
        if name.startswith("$") and name[1:] in live.registers:
            value, register_ = live.registers[name[1:]], dwarf.Place("register", register=name[1:])
            return Value(number("u8"), data=value.to_bytes(8, "little"), place=register_)
        return global_value(self._core, name.removeprefix("@"), self.copy_of)

    def _name_or_function(self, index: int, name: str) -> Value | None:
        return self._name(index, name) or function_value(self._core, name.removeprefix("@"))

    def _write(self, index: int, value: Value, data: bytes) -> None:
        """Set a value's bytes, where it is in memory or in a register of the innermost frame."""
        place = value.place
        if value.address is not None:
            self._memory.write(value.address, data)
        elif place is None or place.register not in self.registers:
            raise UsageError("it is in no place that can be set: it is computed where it is used")
        elif not self.frame(index).exact:
            raise UsageError("registers are set in the innermost frame: those of callers are saved")
        else:
            size = max(len(data), 1)
            was = self.registers[place.register] >> 8 * size << 8 * size
            self.registers[place.register] = was | int.from_bytes(data, "little")
            self.look_again()
        self.edited = True

    def set_variable(self, reference: int, name: str, text: str) -> Variable:
        """Set one of the variables that a reference stands for.  Raises UsageError, which says what
        is expected."""
        held, read = self._named(reference), self._memory.read
        if held.kind == "registers":
            self.evaluate(f"${name} = {text}", held.frame)
            return register(name, self.registers[name])
        expression, found = name, None
        if held.kind == "value" and held.value is not None:
            for part in values.children(held.value, read, *_around(name)):
                if part.name == name:
                    expression, found = part.expression(held.expression), part.value
        else:
            found = self._name(held.frame, name)
        if found is None:
            raise UsageError(f"nothing here is called {name}")
        try:
            data = assign(found, text, read)
        except UsageError as wrong:
            try:
                data = converted(text, found.type, self._context(held.frame))
            except UsageError:
                raise wrong from None  # which says what is expected
            data = with_bits(found, data, read) if found.bits else data
        self._write(held.frame, found, data)
        fresh = found if found.address is not None else self._name(held.frame, expression)
        return self._shown(name, fresh or found, expression, held.frame)

    def type_named(self, name: str) -> DataType | None:
        """A type of C's that the innermost frame's cell knows."""
        return self._context(0).types(name)

    def look_again(self) -> None:
        """Registers are others, or memory is, where code has run on the thread."""
        for name in ("live", "_first", "_vectors"):
            self.__dict__.pop(name, None)


def may_be_late(local: Local, place: Place) -> bool:
    """True of what optimised code keeps in the frame, of which nobody tells when it is stored: LLVM
    removes stores that nothing reads."""
    info = place.part.info
    return local.throughout and not local.static and not info.keeps_frame(place.function)


def _around(name: str) -> tuple[int, int]:
    """The one part that a name such as `[5]` means, else all."""
    inner = name[1:-1]
    return (int(inner), 1) if name[:1] == "[" and inner.isdigit() else (0, 0)
