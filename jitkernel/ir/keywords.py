"""The words of IR and what they mean, for completion, inspection and statements; and the names
close to a mistyped one.

Start from `KEYWORDS` and `OPCODES`.
"""

from __future__ import annotations

from collections.abc import Iterable

_TERMINATORS = """
ret: end the function, with a value or void
br: go to another block, or to one of two by an i1
switch: go to the block of the matching integer
indirectbr: go to a block by its address
invoke: call, with a block for the case that it throws
callbr: call inline assembly that may jump
resume: go on throwing after a landingpad
unreachable: this point is never reached
catchswitch: choose a handler (Windows exceptions)
catchret: leave a handler (Windows exceptions)
cleanupret: leave a cleanup (Windows exceptions)
"""
_BINARY = """
add: add integers
fadd: add floats
sub: subtract integers
fsub: subtract floats
mul: multiply integers
fmul: multiply floats
udiv: divide unsigned integers
sdiv: divide signed integers, towards zero
fdiv: divide floats
urem: remainder of an unsigned division
srem: remainder of a signed division
frem: remainder of a float division
shl: shift left
lshr: shift right, filling with zeros
ashr: shift right, filling with the sign
and: bitwise and
or: bitwise or
xor: bitwise exclusive or
"""
_CASTS = """
trunc: a narrower integer
zext: a wider integer, zeros above
sext: a wider integer, the sign above
fptrunc: a narrower float
fpext: a wider float
fptoui: float to unsigned integer
fptosi: float to signed integer
uitofp: unsigned integer to float
sitofp: signed integer to float
ptrtoint: address to integer
ptrtoaddr: address to integer, without its provenance
inttoptr: integer to address
bitcast: the same bits as another type
addrspacecast: an address in another address space
"""
# Words that may stand before `call` are opcodes to a reader.
_OTHERS = """
catchpad: begin a handler (Windows exceptions)
cleanuppad: begin a cleanup (Windows exceptions)
fneg: negate a float
extractelement: one element of a vector
insertelement: a vector with one element changed
shufflevector: elements of two vectors in a new order
extractvalue: one member of a struct or an array
insertvalue: a struct or an array with one member changed
alloca: memory on the stack, until the function returns
load: read a value from memory
store: write a value to memory
fence: order memory accesses between threads
cmpxchg: compare and exchange, atomically
atomicrmw: read, modify and write, atomically
getelementptr: the address of a part, without any access
icmp: compare integers or addresses: eq ne ugt uge ult ule sgt sge slt sle
fcmp: compare floats: oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno
phi: the value that belongs to the block we came from
select: one of two values by an i1
freeze: a fixed value where it was undef or poison
call: call a function
tail: this call may reuse the caller's frame
musttail: this call must reuse the caller's frame
notail: this call keeps the caller's frame
va_arg: the next variadic argument
landingpad: what arrives from an invoke that threw
"""
_ENTITIES = """
define: a function with its body
declare: a function that stands elsewhere
global: a variable
constant: a variable that never changes
alias: another name for a symbol
ifunc: a symbol resolved by a function when it is loaded
type: a named type: %pt = type { i32, i32 }
target: triple or datalayout of pasted code
source_filename: the name of the file that the code came from
attributes: a group of attributes: attributes #0 = { nounwind }
module: module asm "...": assembly at the top
uselistorder: the order of a value's uses
private: only in this cell, without a symbol
internal: only in this cell
external: it stands elsewhere
weak: another definition may take its place
linkonce_odr: may be defined by several cells, all alike
available_externally: a copy for the optimiser only
thread_local: one for each thread
unnamed_addr: its address does not matter
dso_local: it is in this program
hidden: not visible outside
"""
_TYPES = """
void: no value
i1: a truth value
i8: an 8-bit integer
i16: a 16-bit integer
i32: a 32-bit integer
i64: a 64-bit integer
i128: a 128-bit integer
half: a 16-bit float
bfloat: a 16-bit float with 8 exponent bits
float: a 32-bit float
double: a 64-bit float
x86_fp80: the x87's 80-bit float
fp128: a 128-bit float
ptr: an address
label: a block's label
metadata: metadata as an argument
"""
_CONSTANTS = """
true: i1 1
false: i1 0
null: the address 0
zeroinitializer: all zeros, of any type
undef: any value
poison: the result of an operation that was not allowed
"""
_FLAGS = """
nuw: no unsigned overflow (else poison)
nsw: no signed overflow (else poison)
exact: no remainder (else poison)
inbounds: stays inside its object (else poison)
disjoint: no bit set in both (else poison)
fast: all fast-math flags
volatile: an access that must happen
atomic: an access that is not torn
align: alignment in bytes
nounwind: does not throw
noinline: is not inlined
alwaysinline: is always inlined
optnone: is not optimised
readonly: does not write memory
noundef: is never undef or poison
nocapture: its address is not kept
sret: the address where the result goes
byval: a copy on the stack
signext: extended with its sign
zeroext: extended with zeros
to: casts: the new type follows
label: a block follows
unwind: invoke: the block for an exception follows
"""


def _rows(kind: str, text: str) -> dict[str, tuple[str, str]]:
    pairs = [line.split(": ", 1) for line in text.split("\n") if line]
    return {name: (kind, meaning) for name, meaning in pairs}


# Word to (kind, meaning); kinds: "opcode", "entity", "type", "constant", "flag".
KEYWORDS: dict[str, tuple[str, str]] = {
    **_rows("flag", _FLAGS),
    **_rows("constant", _CONSTANTS),
    **_rows("type", _TYPES),
    **_rows("entity", _ENTITIES),
    **_rows("opcode", _TERMINATORS + _BINARY + _CASTS + _OTHERS),
}


TERMINATORS = frozenset(_rows("", _TERMINATORS))
BINARY_OPCODES = frozenset(_rows("", _BINARY))
CAST_OPCODES = frozenset(_rows("", _CASTS))
OPCODES = frozenset([word for word, (kind, _) in KEYWORDS.items() if kind == "opcode"])
#: The attributes of a function that are single words (LangRef, Function Attributes).
ATTRIBUTES = frozenset(
    "alwaysinline builtin cold convergent hot inlinehint jumptable minsize mustprogress naked"
    " nobuiltin nocallback noduplicate nofree noimplicitfloat noinline nomerge norecurse noredzone"
    " noreturn nosync nounwind nonlazybind optnone optsize returns_twice safestack sanitize_address"
    " speculatable ssp sspreq sspstrong strictfp uwtable willreturn".split()
)
_ORDERS = {"gt": "greater", "ge": "greater or equal", "lt": "less", "le": "less or equal"}
#: What comparisons ask (LangRef, icmp and fcmp).
PREDICATES = {
    "icmp": {"eq": "equal", "ne": "not equal"}
    | {f"s{w}": f"{said}, of signed numbers" for w, said in _ORDERS.items()}
    | {f"u{w}": f"{said}, of unsigned numbers" for w, said in _ORDERS.items()},
    "fcmp": {
        f"{o}{w}": f"{said}{nan}"
        for o, nan in (("o", ", and no NaN"), ("u", ", or a NaN"))
        for w, said in {"eq": "equal", "ne": "not equal", **_ORDERS}.items()
    }
    | {"ord": "no NaN", "uno": "a NaN"},
}
FLOAT_TYPES = ("half", "bfloat", "float", "double", "x86_fp80", "fp128")
ENTITY_WORDS = frozenset(
    "define declare target source_filename attributes module uselistorder uselistorder_bb".split()
)
# What may follow `@name =` in a definition of a variable, an alias or an ifunc (LangRef, "Global
# Variables"): linkage, preemption, visibility, DLL storage, thread-local, address, storage.
VARIABLE_WORDS = frozenset(
    "private internal available_externally linkonce weak common appending extern_weak linkonce_odr"
    " weak_odr external dso_local dso_preemptable default hidden protected dllimport dllexport"
    " thread_local unnamed_addr local_unnamed_addr addrspace externally_initialized global constant"
    " alias ifunc".split()
)


def describe_word(word: str) -> str:
    """`add (opcode): add integers`; empty for words that IR does not have."""
    found = KEYWORDS.get(word)
    return f"{word} ({found[0]}): {found[1]}" if found else ""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name closest to `name`, or None where none is close."""
    names = [n for n in known if abs(len(n) - len(name)) <= max(3, len(name))]
    by_lower = {n.lower(): n for n in names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    import difflib

    found = difflib.get_close_matches(name, names, n=5, cutoff=cutoff)
    if not found and 1 < len(name) < 4:  # in a short name one letter is much of it
        alike = [n for n in names if n[:1] == name[:1] and len(n) == len(name)]
        found = difflib.get_close_matches(name, alike, n=5, cutoff=0.5)
    if not found:
        return None
    best = [
        n for n in found if len(n) == len(found[0])
    ]  # equally close: the longest same beginning
    return max(best, key=lambda n: _same_beginning(n, name))


def _same_beginning(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
