"""The passes that a pipeline may name, and what LLVM calls them where.  Start from `parse_passes`.

No LLVM here.  llvmlite's pass managers can be given some one by one (`SINGLE`); all others LLVM
reads from text, as its `opt` does (`hidden.parse_pipeline`): `TEXTS`.
"""

from __future__ import annotations

import re

from jitkernel.errors import CompileError
from jitkernel.regex import regex
from jitkernel.wording import did_you_mean

#: The passes: name in pipelines, class in LLVM's logs less `Pass`, what it does.  A `+`: llvmlite's
#: pass managers can be given it, by LLVMPY_module_Add(class)Pass.  Nothing is said of what may not
#: be asked for: parts of the default pipeline that change nothing in a cell, or that the session
#: relies on.  LLVM's own page is llvm.org/docs/Passes.html.
_TABLE = """
adce ADCE+: removes what has no effect: all is dead until something needs it, branches too
aggressive-instcombine AggressiveInstCombine+: replaces patterns over several instructions, beyond
  instcombine's
alignment-from-assumptions AlignmentFromAssumptions: raises alignments of loads and stores, by
  llvm.assume
always-inline AlwaysInliner+: inlines the functions that are marked alwaysinline, no others
annotation2metadata Annotation2Metadata:
argpromotion ArgumentPromotion+: passes what a pointer argument leads to by value
bdce BDCE: removes instructions of whose result no bit is used
break-crit-edges BreakCriticalEdges+: puts a block on edges between several exits and several
  entries
called-value-propagation CalledValuePropagation: notes which functions an indirect call can lead to
callsite-splitting CallSiteSplitting: splits a call by what its arguments are on different ways to
  it
cg-profile CGProfile:
chr ControlHeightReduction: tests several rarely false conditions at once; needs a profile
constmerge ConstantMerge+: makes one of constants with equal contents
constraint-elimination ConstraintElimination: decides comparisons that follow from earlier ones
coro-annotation-elide CoroAnnotationElide:
correlated-propagation CorrelatedValuePropagation: uses the range of values that the way to a block
  implies
dce DCE+: removes instructions whose result nobody uses
deadargelim DeadArgumentElimination+: removes arguments and results of internal functions that
  nobody uses
div-rem-pairs DivRemPairs: puts a division and its remainder together, or computes one from the
  other
drop-unnecessary-assumes DropUnnecessaryAssumes: removes assumptions that have served their purpose
dse DSE+: removes stores that are overwritten before anything reads them
early-cse EarlyCSE: computes equal expressions once, in one walk down the dominator tree
elim-avail-extern EliminateAvailableExternally: drops bodies that are only there to be inlined
  (available_externally)
float2int Float2Int: computes with integers what only came from integers as floating point
forceattrs ForceFunctionAttrs:
function-attrs PostOrderFunctionAttrs+: works out what functions do not do (memory, nocapture, ...),
  callees first
globaldce GlobalDCE+: removes functions and variables that nothing refers to
globalopt GlobalOpt+: makes internal variables constant, local, or removes them
gvn GVN: gives equal values one number and computes them once, loads too
indvars IndVarSimplify: gives loops one simple counter and works out their final values
infer-alignment InferAlignment: raises alignments of loads and stores, by what they point to
inferattrs InferFunctionAttrs: adds what is known of library functions to their declarations
inject-tli-mappings InjectTLIMappings: notes which vector variants library functions have
inline Inliner: puts bodies of functions in the place of calls, by a cost model
instcombine InstCombine+: replaces patterns of instructions by simpler ones: x*8 by x<<3
instnamer InstructionNamer+: gives every unnamed value a name
instsimplify InstSimplify: replaces instructions by values that are there already
ipsccp IPSCCP+: propagates constants through calls of internal functions
jump-threading JumpThreading: leads a jump past a condition that is known on that way
lcssa LCSSA+: puts a phi at a loop's exit for each value that is used behind it
libcalls-shrinkwrap LibCallsShrinkWrap: calls library functions only where their result or errno
  matters
licm LICM: moves what does not change out of loops
loop-deletion LoopDeletion+: removes loops without effect
loop-distribute LoopDistribute: splits a loop, so that a part can be vectorised
loop-idiom LoopIdiomRecognize: recognises memset, memcpy, popcount and the like in loops
loop-instsimplify LoopInstSimplify: does what instsimplify does, inside loops
loop-load-elim LoopLoadElimination: takes a value from the iteration before instead of loading it
loop-reduce LoopStrengthReduce+: replaces multiplications by additions along a loop (strength
  reduction)
loop-rotate LoopRotate+: turns `while` into `if` and `do while`: the test stands at the end
loop-simplify LoopSimplify+: gives loops a preheader, one back edge and exits of their own
loop-simplifycfg LoopSimplifyCFG: simplifies control flow inside loops
loop-sink LoopSink: moves what a loop seldom needs back into it (needs a profile)
loop-unroll LoopUnroll+: repeats a loop's body to save tests and jumps
loop-unroll-and-jam LoopUnrollAndJam+: unrolls an outer loop and joins the copies of the inner one
loop-unroll-full LoopFullUnroll: unrolls loops whose count is known and small entirely
loop-vectorize LoopVectorize: does several iterations at once in vector registers
lower-atomic LowerAtomic+: makes atomic instructions plain ones, for a single thread
lower-constant-intrinsics LowerConstantIntrinsics: decides llvm.is.constant and llvm.objectsize
lower-expect LowerExpectIntrinsic: turns llvm.expect into branch weights
lower-invoke LowerInvoke+: makes invokes plain calls: without exceptions
lower-switch LowerSwitch+: turns switches into trees of comparisons
mem2reg Promote: turns variables in memory (alloca) into SSA values with phis
memcpyopt MemCpyOpt+: removes and joins copies of memory
memprof-remove-attributes MemProfRemoveInfo:
mergefunc MergeFunctions+: makes one of functions that do the same
mergereturn UnifyFunctionExitNodes+: gives a function a single return
mldst-motion MergedLoadStoreMotion: joins stores of both branches of a diamond behind it
move-auto-init MoveAutoInit: moves automatic initialisation to where it is needed
newgvn NewGVN+: does what gvn does by another algorithm, over the whole function at once
openmp-opt OpenMPOpt:
openmp-opt-cgscc OpenMPOptCGSCC:
partial-inliner PartialInliner+: inlines a function's quick way out and leaves the rest a call
reassociate Reassociate+: orders operands so that constants meet: (x+1)+2 can become x+3
recompute-globalsaa RecomputeGlobalsAA:
reg2mem RegToMem+: turns values that live across blocks into variables in memory, phis too
rel-lookup-table-converter RelLookupTableConverter: stores offsets instead of addresses in lookup
  tables
rewrite-statepoints-for-gc RewriteStatepointsForGC: makes calls in functions with a `gc` strategy
  safepoints
rpo-function-attrs ReversePostOrderFunctionAttrs+: works out what functions do not do, callers first
sccp SCCP+: propagates constants and the branches that they decide together
simple-loop-unswitch SimpleLoopUnswitch: takes a test that does not change out of a loop, which it
  doubles
simplifycfg SimplifyCFG+: joins blocks, removes unreachable ones, makes selects of small branches
sink Sinking+: moves instructions down to the only block that needs them
slp-vectorizer SLPVectorizer: joins equal operations that stand side by side into vector ones
speculative-execution SpeculativeExecution: does cheap instructions of both branches before the test
sroa SROA+: splits variables in memory into scalars and turns them into SSA values
tailcallelim TailCallElim+: turns a function that calls itself last into a loop
transform-warning WarnMissedTransformations:
vector-combine VectorCombine: improves vector instructions by what they cost on this machine
"""
_ROW = regex(r"^(\S+) (\w+)(\+?):(.*(?:\n  .*)*)$", re.M)
_ROWS = [(*match.groups()[:3], " ".join(match[4].split())) for match in _ROW.finditer(_TABLE)]

#: by name, the middle of llvmlite's function
SINGLE = {name: title for name, title, single, _ in _ROWS if single}
#: what a pass does, in a line, of those that may be asked for
DESCRIPTIONS = {name: words for name, _, _, words in _ROWS if words}
_NAMES = {title: name for name, title, _, _ in _ROWS}
#: what LLVM calls those that do more in the default pipeline than their names alone ask for
TEXTS = {
    "early-cse": "early-cse<memssa>",
    "simple-loop-unswitch": "function(loop-mssa(simple-loop-unswitch<nontrivial>))",
}

# Those that LLVM runs on each loop by itself.
_EACH_LOOP = frozenset(
    "indvars licm loop-deletion loop-idiom loop-instsimplify loop-reduce loop-rotate"
    " loop-simplifycfg loop-unroll-and-jam loop-unroll-full simple-loop-unswitch".split()
)
_COROUTINES = ("coro-early", "coro-split", "coro-elide", "coro-cleanup")
_CHANGING = frozenset({*DESCRIPTIONS, *_COROUTINES})
#: The passes that LLVM prints the work of, where it is asked to: not those on each loop, since
#: printing a loop costs as much as printing its function, nor those that change nothing in a cell.
PRINTED = ",".join(sorted(_CHANGING - _EACH_LOOP))
KNOWN = tuple(sorted(DESCRIPTIONS))
#: Functions that name one of LLVM's strategies for statepoints are not whole before this pass has
#: run, whatever else does (llvm/lib/IR/BuiltinGCs.cpp, UseRS4GC).
STATEPOINTS = "rewrite-statepoints-for-gc"


def name_of(class_name: str) -> str:
    """The pipeline name of a pass that a log calls by its class: `SROAPass` is `sroa`."""
    title = class_name.partition("<")[0].removesuffix("Pass")
    return _NAMES.get(title, title)


def may_change(class_name: str) -> bool:
    """True if a pass, by its class, may change something in a cell: it is no analysis."""
    return name_of(class_name) in _CHANGING


def parse_passes(text: str) -> tuple[str, ...]:
    """The names in `instcombine,simplifycfg`; `none` is no pass at all.

    Raises CompileError with the known ones.
    """
    if text.strip() == "none":
        return ()
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    for name in names:
        if name not in KNOWN:
            near, listed = did_you_mean(name, KNOWN), ", ".join(KNOWN)
            raise CompileError(f"there is no pass {name!r}{near}\nThere are: {listed}")
    if not names:
        raise CompileError("an empty pipeline: name at least one pass, or none")
    return names


def canonical(text: str) -> str:
    """A pipeline as options carry it, checked; raises CompileError."""
    return ",".join(parse_passes(text)) or "none"
