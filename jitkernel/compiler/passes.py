"""The passes that a pipeline may name, and what LLVM calls them where.  Start from `parse_passes`.

No LLVM here.  Two kinds of passes can be asked for: those that llvmlite's pass managers can be
given one by one (`SINGLE`), and those that exist for it only inside LLVM's default pipeline
(`IN_DEFAULT`): such a one runs as the default pipeline with every other pass switched off.
"""

from __future__ import annotations

from jitkernel.errors import CompileError
from jitkernel.wording import did_you_mean

__all__ = [
    "CLASSES",
    "DESCRIPTIONS",
    "IN_DEFAULT",
    "KNOWN",
    "SINGLE",
    "canonical",
    "disabled_for",
    "name_of",
    "parse_passes",
]

# Pipeline name: the middle of llvmlite's function LLVMPY_module_Add...Pass.
SINGLE = {
    "adce": "ADCE",
    "aggressive-instcombine": "AggressiveInstCombine",
    "always-inline": "AlwaysInliner",
    "argpromotion": "ArgumentPromotion",
    "break-crit-edges": "BreakCriticalEdges",
    "constmerge": "ConstantMerge",
    "dce": "DCE",
    "deadargelim": "DeadArgumentElimination",
    "dse": "DSE",
    "function-attrs": "PostOrderFunctionAttrs",
    "globaldce": "GlobalDCE",
    "globalopt": "GlobalOpt",
    "instcombine": "InstCombine",
    "instnamer": "InstructionNamer",
    "ipsccp": "IPSCCP",
    "lcssa": "LCSSA",
    "loop-deletion": "LoopDeletion",
    "loop-reduce": "LoopStrengthReduce",
    "loop-rotate": "LoopRotate",
    "loop-simplify": "LoopSimplify",
    "loop-unroll": "LoopUnroll",
    "loop-unroll-and-jam": "LoopUnrollAndJam",
    "lower-atomic": "LowerAtomic",
    "lower-invoke": "LowerInvoke",
    "lower-switch": "LowerSwitch",
    "memcpyopt": "MemCpyOpt",
    "mergefunc": "MergeFunctions",
    "mergereturn": "UnifyFunctionExitNodes",
    "newgvn": "NewGVN",
    "partial-inliner": "PartialInliner",
    "reassociate": "Reassociate",
    "reg2mem": "RegToMem",
    "rpo-function-attrs": "ReversePostOrderFunctionAttrs",
    "sccp": "SCCP",
    "simplifycfg": "SimplifyCFG",
    "sink": "Sinking",
    "sroa": "SROA",
    "tailcallelim": "TailCallElim",
}

# Of these, what the default pipeline does not have.
_EXTRA = frozenset(
    """
    always-inline break-crit-edges dce instnamer loop-reduce loop-unroll-and-jam
    lower-atomic lower-invoke lower-switch mergefunc mergereturn newgvn partial-inliner
    reg2mem sink
    """.split()
)

# Class name, as LLVM's logs have it: pipeline name.
_NAMES = {
    **{f"{name}Pass": known for known, name in SINGLE.items()},
    "AlignmentFromAssumptionsPass": "alignment-from-assumptions",
    "Annotation2MetadataPass": "annotation2metadata",
    "BDCEPass": "bdce",
    "CGProfilePass": "cg-profile",
    "CallSiteSplittingPass": "callsite-splitting",
    "CalledValuePropagationPass": "called-value-propagation",
    "ConstraintEliminationPass": "constraint-elimination",
    "ControlHeightReductionPass": "chr",
    "CoroAnnotationElidePass": "coro-annotation-elide",
    "CorrelatedValuePropagationPass": "correlated-propagation",
    "DivRemPairsPass": "div-rem-pairs",
    "DropUnnecessaryAssumesPass": "drop-unnecessary-assumes",
    "EarlyCSEPass": "early-cse",
    "EliminateAvailableExternallyPass": "elim-avail-extern",
    "Float2IntPass": "float2int",
    "ForceFunctionAttrsPass": "forceattrs",
    "GVNPass": "gvn",
    "IndVarSimplifyPass": "indvars",
    "InferAlignmentPass": "infer-alignment",
    "InferFunctionAttrsPass": "inferattrs",
    "InjectTLIMappings": "inject-tli-mappings",
    "InlinerPass": "inline",
    "InstSimplifyPass": "instsimplify",
    "JumpThreadingPass": "jump-threading",
    "LICMPass": "licm",
    "LibCallsShrinkWrapPass": "libcalls-shrinkwrap",
    "LoopDistributePass": "loop-distribute",
    "LoopFullUnrollPass": "loop-unroll-full",
    "LoopIdiomRecognizePass": "loop-idiom",
    "LoopInstSimplifyPass": "loop-instsimplify",
    "LoopLoadEliminationPass": "loop-load-elim",
    "LoopSimplifyCFGPass": "loop-simplifycfg",
    "LoopSinkPass": "loop-sink",
    "LoopVectorizePass": "loop-vectorize",
    "LowerConstantIntrinsicsPass": "lower-constant-intrinsics",
    "LowerExpectIntrinsicPass": "lower-expect",
    "MemProfRemoveInfo": "memprof-remove-attributes",
    "MergedLoadStoreMotionPass": "mldst-motion",
    "MoveAutoInitPass": "move-auto-init",
    "OpenMPOptCGSCCPass": "openmp-opt-cgscc",
    "OpenMPOptPass": "openmp-opt",
    "PromotePass": "mem2reg",
    "RecomputeGlobalsAAPass": "recompute-globalsaa",
    "RelLookupTableConverterPass": "rel-lookup-table-converter",
    "SLPVectorizerPass": "slp-vectorizer",
    "SimpleLoopUnswitchPass": "simple-loop-unswitch",
    "SpeculativeExecutionPass": "speculative-execution",
    "VectorCombinePass": "vector-combine",
    "WarnMissedTransformationsPass": "transform-warning",
}
#: Those of -O1 to -O3 that may be left out.
CLASSES = {known: name for known, name in _NAMES.items() if name not in _EXTRA}

# What loop passes take for granted; the default pipeline runs these two before each of them.
_LOOP_FORM = ("loop-simplify", "lcssa")
_ON_LOOPS = ("licm", "indvars", "simple-loop-unswitch", "loop-")

#: What each pass does, in a line, of those that may be asked for: not the parts of the default
#: pipeline that change nothing in a cell, or that the session relies on.  LLVM's own page is
#: llvm.org/docs/Passes.html.
DESCRIPTIONS = {
    "adce": "removes what has no effect: all is dead until something needs it, branches too",
    "aggressive-instcombine": "replaces patterns over several instructions, beyond instcombine's",
    "alignment-from-assumptions": "raises alignments of loads and stores, by llvm.assume",
    "always-inline": "inlines the functions that are marked alwaysinline, no others",
    "argpromotion": "passes what a pointer argument leads to by value",
    "bdce": "removes instructions of whose result no bit is used",
    "break-crit-edges": "puts a block on edges between several exits and several entries",
    "called-value-propagation": "notes which functions an indirect call can lead to",
    "callsite-splitting": "splits a call by what its arguments are on different ways to it",
    "chr": "tests several rarely false conditions at once; needs a profile",
    "constmerge": "makes one of constants with equal contents",
    "constraint-elimination": "decides comparisons that follow from earlier ones",
    "correlated-propagation": "uses the range of values that the way to a block implies",
    "dce": "removes instructions whose result nobody uses",
    "deadargelim": "removes arguments and results of internal functions that nobody uses",
    "div-rem-pairs": "puts a division and its remainder together, or computes one from the other",
    "drop-unnecessary-assumes": "removes assumptions that have served their purpose",
    "dse": "removes stores that are overwritten before anything reads them",
    "early-cse": "computes equal expressions once, in one walk down the dominator tree",
    "elim-avail-extern": "drops bodies that are only there to be inlined (available_externally)",
    "float2int": "computes with integers what only came from integers as floating point",
    "function-attrs": "works out what functions do not do (memory, nocapture, ...), callees first",
    "globaldce": "removes functions and variables that nothing refers to",
    "globalopt": "makes internal variables constant, local, or removes them",
    "gvn": "gives equal values one number and computes them once, loads too",
    "indvars": "gives loops one simple counter and works out their final values",
    "infer-alignment": "raises alignments of loads and stores, by what they point to",
    "inferattrs": "adds what is known of library functions to their declarations",
    "inject-tli-mappings": "notes which vector variants library functions have",
    "inline": "puts bodies of functions in the place of calls, by a cost model",
    "instcombine": "replaces patterns of instructions by simpler ones: x*8 by x<<3",
    "instnamer": "gives every unnamed value a name",
    "instsimplify": "replaces instructions by values that are there already",
    "ipsccp": "propagates constants through calls of internal functions",
    "jump-threading": "leads a jump past a condition that is known on that way",
    "lcssa": "puts a phi at a loop's exit for each value that is used behind it",
    "libcalls-shrinkwrap": "calls library functions only where their result or errno matters",
    "licm": "moves what does not change out of loops",
    "loop-deletion": "removes loops without effect",
    "loop-distribute": "splits a loop, so that a part can be vectorised",
    "loop-idiom": "recognises memset, memcpy, popcount and the like in loops",
    "loop-instsimplify": "does what instsimplify does, inside loops",
    "loop-load-elim": "takes a value from the iteration before instead of loading it",
    "loop-reduce": "replaces multiplications by additions along a loop (strength reduction)",
    "loop-rotate": "turns `while` into `if` and `do while`: the test stands at the end",
    "loop-simplify": "gives loops a preheader, one back edge and exits of their own",
    "loop-simplifycfg": "simplifies control flow inside loops",
    "loop-sink": "moves what a loop seldom needs back into it (needs a profile)",
    "loop-unroll": "repeats a loop's body to save tests and jumps",
    "loop-unroll-and-jam": "unrolls an outer loop and joins the copies of the inner one",
    "loop-unroll-full": "unrolls loops whose count is known and small entirely",
    "loop-vectorize": "does several iterations at once in vector registers",
    "lower-atomic": "makes atomic instructions plain ones, for a single thread",
    "lower-constant-intrinsics": "decides llvm.is.constant and llvm.objectsize",
    "lower-expect": "turns llvm.expect into branch weights",
    "lower-invoke": "makes invokes plain calls: without exceptions",
    "lower-switch": "turns switches into trees of comparisons",
    "mem2reg": "turns variables in memory (alloca) into SSA values with phis",
    "memcpyopt": "removes and joins copies of memory",
    "mergefunc": "makes one of functions that do the same",
    "mergereturn": "gives a function a single return",
    "mldst-motion": "joins stores of both branches of a diamond behind it",
    "move-auto-init": "moves automatic initialisation to where it is needed",
    "newgvn": "does what gvn does by another algorithm, over the whole function at once",
    "partial-inliner": "inlines a function's quick way out and leaves the rest a call",
    "reassociate": "orders operands so that constants meet: (x+1)+2 can become x+3",
    "reg2mem": "turns values that live across blocks into variables in memory, phis too",
    "rel-lookup-table-converter": "stores offsets instead of addresses in lookup tables",
    "rpo-function-attrs": "works out what functions do not do, callers first",
    "sccp": "propagates constants and the branches that they decide together",
    "simple-loop-unswitch": "takes a test that does not change out of a loop, which it doubles",
    "simplifycfg": "joins blocks, removes unreachable ones, makes selects of small branches",
    "sink": "moves instructions down to the only block that needs them",
    "slp-vectorizer": "joins equal operations that stand side by side into vector ones",
    "speculative-execution": "does cheap instructions of both branches before the test",
    "sroa": "splits variables in memory into scalars and turns them into SSA values",
    "tailcallelim": "turns a function that calls itself last into a loop",
    "vector-combine": "improves vector instructions by what they cost on this machine",
}

KNOWN = tuple(sorted(DESCRIPTIONS))
IN_DEFAULT = frozenset(KNOWN) - frozenset(SINGLE)


def name_of(class_name: str) -> str:
    """The pipeline name of a pass that a log calls by its class: `SROAPass` is `sroa`."""
    plain = class_name.partition("<")[0]
    return _NAMES.get(plain) or plain.removesuffix("Pass")


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


def disabled_for(name: str) -> str:
    """The value of LLVM's -opt-disable that leaves of the default pipeline only `name`."""
    keep = {name}
    if name.startswith(_ON_LOOPS):
        keep.update(_LOOP_FORM)
    return ",".join(sorted(set(CLASSES.values()) - keep))
