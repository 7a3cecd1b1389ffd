"""Thunks: `void (fn, args, ret)`, compiled once per signature, that call any function of it.

A thunk loads each argument from a struct at `args`, calls `fn` with the callee's whole signature
and stores the result at `ret`.  Signatures of numbers and pointers alone share one, which hands on
all registers that arguments may be in (executor/passing.py), and was compiled beforehand.  Start
from `Thunks.target`.  `ThreadCopies` asks through one where the thread that runs cells has its
thread-local variables.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from zlib import crc32

from jitkernel.compiler.records import Options, Request
from jitkernel.errors import TypeMismatch, UsageError
from jitkernel.executor.passing import BLOCKS, Block, passed, returned
from jitkernel.executor.runtime import built
from jitkernel.ir.expansion import is_digest
from jitkernel.ir.types import function_type
from jitkernel.linker import Image, Linker, Symbol, SymbolKind
from jitkernel.printable import shortened
from jitkernel.procfs import memory, write_memory
from jitkernel.record import record
from jitkernel.rollback import log_undo
from jitkernel.session.program.signatures import Signature, attributes_of
from jitkernel.values.datatype import DataType
from jitkernel.values.ir import data_type

if TYPE_CHECKING:
    from jitkernel.compiler.pool import CompilerPool
    from jitkernel.session.engine import Engine

#: How many thunks stay linked; the least recently used one makes room.
_KEPT = 512
#: By-value aggregates of more scalars take LLVM seconds to compile.
_MAX_SCALARS = 64
# One call is compiled in a third of the time where nothing is optimised, some bytes longer and as
# quick beside what it takes to ask for it.  Loops that measure, and what can be folded, are not.
_OPTIONS = Options(opt_level=0, internal=True)
_OPTIMISED = Options(opt_level=1, internal=True)


@record(frozen=False, eq=False)
class Thunk:
    """A thunk that is linked: by which key it is found, the layouts of its arguments (None: it
    takes none) and of its result (None: void).  `image` is None where it is another's, a `common`
    one's, which many signatures share: that stays."""

    key: tuple[object, ...]
    address: int
    image: Image | None
    arguments: DataType | None
    result: DataType | None
    common: bool = False


class Thunks:
    """The thunks of a session."""

    def __init__(self, pool: CompilerPool, linker: Linker):
        self._pool, self._linker = pool, linker
        self._thunks: OrderedDict[tuple[object, ...], Thunk] = OrderedDict()

    @property
    def images(self) -> list[Image]:
        """The extents of the thunks."""
        return [thunk.image for thunk in self._thunks.values() if thunk.image is not None]

    def __contains__(self, address: int) -> bool:
        """True if an address of text is in a thunk."""
        texts = (image.text for image in self.images)
        return any(text.start <= address < text.start + text.size for text in texts if text)

    def target(self, signature: Signature, types: tuple[str, ...], timer: bool = False) -> Thunk:
        """The thunk for calls of a signature with arguments of `types` (more than parameters where
        it is variadic; without names).  A `timer` takes a count before them, and gives the
        nanoseconds that so many calls took."""
        key = (*signature[:4], types, timer)
        if (found := self._thunks.get(key)) is not None:
            self._thunks.move_to_end(key)
            return found
        if is_digest(signature.type) or is_digest(signature.attributes):
            raise UsageError(
                "a function with values of so many parts cannot be called: "
                f"{shortened(signature.shown)}"
            )
        result = str(function_type(signature.type).result)
        for type in (*types, result):
            of = data_type(type) if type != "void" else None
            if of is not None and of.kind in ("array", "struct") and of.scalars > _MAX_SCALARS:
                raise TypeMismatch(
                    f"{type} has {of.scalars} scalars; passing more than "
                    f"{_MAX_SCALARS} by value takes the compiler seconds. "
                    "Pass a pointer: `ptr`, or `ptr byval(T)`"
                )
        if timer:
            source = _timer_source(_call(signature, types), result, types)
            return self._make(key, source, ("i64", *types), "i64", _OPTIMISED)
        on_result, on_parameter = attributes_of(signature.attributes)
        if not (signature.convention or signature.features):
            layout, type = passed(types, on_parameter), returned(result, on_result)
            if layout is not None and type:
                address = self._common(layout.size, type).address
                of = data_type(result) if result != "void" else None
                return self._keep(Thunk(key, address, None, layout, of))
        return self._make(key, _source(_call(signature, types), result, types), types, result)

    def _found(self, key: tuple[object, ...]) -> Thunk | None:
        """A thunk that is there, which is the one used last from now on."""
        if key in self._thunks:
            self._thunks.move_to_end(key)
        return self._thunks.get(key)

    def _common(self, size: int, result: str) -> Thunk:
        """The thunk for arguments in a block of so many bytes, as `passed` lays them out, and
        results that are returned as `result` is."""
        key = ("common", size, result)
        if found := self._found(key):
            return found
        name, request = common(next(block for block in BLOCKS if block.size == size), result)
        code = built(name, crc32(request.source.encode())) or self._pool.compile(request).object
        with self._linker.arena.rollback.atomic():
            return self._keep(Thunk(key, *self._place(code), None, None, common=True))

    def timer_of(self, results: tuple[str, ...]) -> Thunk:
        """The thunk that takes a count and the addresses of functions without parameters, with
        results of such types (without names), and gives the nanoseconds that calling all of them,
        one after another, took so often."""
        key = ("timer of", *results)
        if found := self._found(key):
            return found
        called = [f"call {result} %a{i}()" for i, result in enumerate(results)]
        calls = "\n  ".join(
            call if result == "void" else f"%r{i} = {call}"
            for i, (call, result) in enumerate(zip(called, results, strict=True))
        )
        types = ("ptr",) * len(results)
        source = _timer_source(calls, "void", types)
        return self._make(key, source, ("i64", *types), "i64", _OPTIMISED)

    def known(self, signature: Signature, types: tuple[str, ...]) -> Thunk | None:
        """The same where it is there already."""
        return self._thunks.get((*signature[:4], types, False))

    def has(self, thunk: Thunk) -> bool:
        """True if a thunk is still there."""
        return self._thunks.get(thunk.key) is thunk

    def intrinsic(self, name: str, result: str, arguments: tuple[tuple[str, str], ...]) -> Thunk:
        """The thunk that calls an intrinsic, which has no address, with `arguments`: types, each
        with its constant or "" where the value comes from `args`."""
        key = ("intrinsic", name, result, arguments)
        if found := self._found(key):
            return found
        types = tuple(type for type, constant in arguments if not constant)
        values = iter(range(len(types)))
        given = [f"{type} {constant or f'%a{next(values)}'}" for type, constant in arguments]
        call = f"call {result} @{name}({', '.join(given)})"
        return self._make(key, _source(call, result, types), types, result, _OPTIMISED)

    def _make(
        self, key: tuple[object, ...], source: str, types: tuple[str, ...], result: str,
        options: Options = _OPTIONS,
    ) -> Thunk:  # fmt: skip
        """Compile and place a thunk that takes arguments of `types`; the oldest makes room."""
        arguments = data_type(struct_of(types)) if types else None
        layout = data_type(result) if result != "void" else None
        code = self._pool.compile(Request(source, options, label="a thunk")).object
        with self._linker.arena.rollback.atomic():
            return self._keep(Thunk(key, *self._place(code), arguments, layout))

    def _place(self, code: bytes) -> tuple[int, Image]:
        image, address = self._linker.place_unnamed(
            code, "jk_thunk", kinds={"clock_gettime": "function"}
        )
        return address, image

    def _keep(self, found: Thunk) -> Thunk:
        """Have a thunk found; the oldest makes room."""
        thunks = self._thunks
        with self._linker.arena.rollback.atomic():
            log_undo(thunks.pop, found.key, None)
            thunks[found.key] = found
            if len(thunks) > _KEPT:
                first, oldest = next(one for one in thunks.items() if not one[1].common)
                log_undo(thunks.setdefault, first, oldest)
                del thunks[first]
                if oldest.image is not None:
                    self._linker.unlink(oldest.image)
        return found


_FIND: Final = Signature("ptr (ptr)", "", "", "", "ptr (ptr)")


class ThreadCopies:
    """The address of the thread-local variables of the executor's own thread, which runs the cells.

    The executor is asked when a variable was not yet found in its present process; otherwise, and
    always while code runs, what it said before holds.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self._found: dict[int, tuple[int, int, int]] = {}  # generation, number of copies, address

    def find(self, symbol: Symbol) -> int:
        """The address of the copy that a control block is of.  Raises UsageError."""
        engine, block = self._engine, symbol.address
        called = engine.linker.bind.called(symbol.name)
        generation, number, address = self._found.get(block, (0, 0, 0))
        if address and (generation, number) == (engine.executor.generation, self._number(block)):
            return address
        getter = engine.linker.known("__emutls_get_address", SymbolKind.FUNCTION)
        if engine.executor.busy or getter is None:
            why = "is thread-local: where it is can be asked for when no code runs"
            raise UsageError(f"{called} {why}")
        target = engine.thunks.target(_FIND, ("ptr",))
        words = block.to_bytes(8, "little")
        outcome = engine.call(target.address, engine.linker.entry(getter), words, 8)
        if outcome.kind != "ok":
            raise UsageError(f"{called}: the executor has no memory for it")
        address = int.from_bytes(outcome.result, "little")
        self._found[block] = engine.executor.generation, self._number(block), address
        return address

    def content(self, symbol: Symbol) -> bytes:
        """The bytes of the copy; those that it would begin with, where no thread has one.  Raises
        UsageError as `find` does."""
        read = self._engine.arena.read
        size, _, number, first = (
            int.from_bytes(read(symbol.address + at, 8), "little") for at in (0, 8, 16, 24)
        )
        if number:
            return self.read(self.find(symbol), size)
        return read(first, size) if first else bytes(size)

    def _number(self, block: int) -> int:
        return int.from_bytes(self._engine.arena.read(block + 16, 8), "little")

    def read(self, address: int, size: int) -> bytes:
        """The bytes of a copy that was found; none where `address` is of no such copy."""
        if all(known != address for _, _, known in self._found.values()):
            return b""
        return memory(self._engine.executor.pid, address, size)

    def write(self, address: int, data: bytes) -> bool:
        """Write to a copy that was found; whether that could be done."""
        known = any(known == address for _, _, known in self._found.values())
        return known and write_memory(self._engine.executor.pid, address, data) == len(data)


def struct_of(types: Sequence[str]) -> str:
    """The struct in which values of some types lie, as a thunk reads its arguments."""
    return "{ " + ", ".join(types) + " }" if types else "{}"


def _loads(types: Sequence[str], struct: str, first: int = 0) -> str:
    """Load the arguments `%a0` and so on, from the field `first` on."""
    lines: list[str] = []
    for i, type in enumerate(types):
        lines.append(f"  %p{i + 10} = getelementptr {struct}, ptr %args, i32 0, i32 {i + first}\n")
        lines.append(f"  %a{i} = load {type}, ptr %p{i + 10}\n")
    return "".join(lines)


def _source(call: str, result: str, types: Sequence[str]) -> str:
    """IR of a thunk that makes a call and stores its result."""
    if result != "void":
        call = f"%r = {call}\n  store {result} %r, ptr %ret"
    return f"""define void @jk_thunk(ptr %fn, ptr %args, ptr %ret) {{
{_loads(types, struct_of(types))}  {call}
  ret void
}}
"""


def common(block: Block, result: str) -> tuple[str, Request]:
    """The name of the thunk for all that is passed in a block and returned as `result` is, `i64` or
    `double`, and what it is compiled from.

    It calls a function with any arguments: then LLVM also says how many registers hold numbers with
    a point, which one with any arguments wants to know (System V ABI, AMD64 supplement, 3.5.7).
    """
    given = ", ".join(f"{type} %a{i}" for i, type in enumerate(block.types))
    source = _source(f"call {result} (...) %fn({given})", result, block.types)
    options = _OPTIONS._replace(cpu="x86-64")
    return f"thunk-{result}-{block.stack}", Request(source, options, label="a thunk")


def _timer_source(call: str, result: str, types: Sequence[str]) -> str:
    """IR of a thunk that makes a call as often as the `i64` before the arguments says and stores
    the nanoseconds that took (CLOCK_MONOTONIC) at `ret`."""
    keep = room = ""
    if result != "void":
        call = f"%r = {call}"
        # The result must look used, or the optimiser could drop a call it knows to be pure.
        keep = f"  store volatile {result} %r, ptr %keep\n"
        room = f"  %keep = alloca {result}\n"
    return f"""declare i32 @clock_gettime(i32, ptr)
define void @jk_thunk(ptr %fn, ptr %args, ptr %ret) {{
entry:
  %t0 = alloca [2 x i64]
  %t1 = alloca [2 x i64]
{room}  %n = load i64, ptr %args
{_loads(types, struct_of(("i64", *types)), first=1)}  %c0 = call i32 @clock_gettime(i32 1, ptr %t0)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  {call}
{keep}  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  %c1 = call i32 @clock_gettime(i32 1, ptr %t1)
  %s0 = load i64, ptr %t0
  %s1 = load i64, ptr %t1
  %p0 = getelementptr i64, ptr %t0, i64 1
  %p1 = getelementptr i64, ptr %t1, i64 1
  %n0 = load i64, ptr %p0
  %n1 = load i64, ptr %p1
  %ds = sub i64 %s1, %s0
  %dn = sub i64 %n1, %n0
  %ns = mul i64 %ds, 1000000000
  %total = add i64 %ns, %dn
  store i64 %total, ptr %ret
  ret void
}}
"""


def _call(signature: Signature, types: Sequence[str]) -> str:
    """The call instruction of `%fn` with the arguments that were loaded."""
    function = function_type(signature.type)
    on_result, on_parameter = attributes_of(signature.attributes)
    arguments = [
        " ".join(filter(None, (type, on_parameter.get(i, ""), f"%a{i}")))
        for i, type in enumerate(types)
    ]
    called = str(function.result)
    if function.variadic:
        called += f" ({', '.join([*map(str, function.parameters), '...'])})"
    words = ("call", signature.convention, on_result, called, f"%fn({', '.join(arguments)})")
    return " ".join(filter(None, words))
