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

# Class name, as LLVM's logs have it: pipeline name.  Every pass of -O1 to -O3 that may be left out.
CLASSES = {
    "ADCEPass": "adce",
    "AggressiveInstCombinePass": "aggressive-instcombine",
    "AlignmentFromAssumptionsPass": "alignment-from-assumptions",
    "Annotation2MetadataPass": "annotation2metadata",
    "ArgumentPromotionPass": "argpromotion",
    "BDCEPass": "bdce",
    "CGProfilePass": "cg-profile",
    "CallSiteSplittingPass": "callsite-splitting",
    "CalledValuePropagationPass": "called-value-propagation",
    "ConstantMergePass": "constmerge",
    "ConstraintEliminationPass": "constraint-elimination",
    "ControlHeightReductionPass": "chr",
    "CoroAnnotationElidePass": "coro-annotation-elide",
    "CorrelatedValuePropagationPass": "correlated-propagation",
    "DSEPass": "dse",
    "DeadArgumentEliminationPass": "deadargelim",
    "DivRemPairsPass": "div-rem-pairs",
    "DropUnnecessaryAssumesPass": "drop-unnecessary-assumes",
    "EarlyCSEPass": "early-cse",
    "EliminateAvailableExternallyPass": "elim-avail-extern",
    "Float2IntPass": "float2int",
    "ForceFunctionAttrsPass": "forceattrs",
    "GVNPass": "gvn",
    "GlobalDCEPass": "globaldce",
    "GlobalOptPass": "globalopt",
    "IPSCCPPass": "ipsccp",
    "IndVarSimplifyPass": "indvars",
    "InferAlignmentPass": "infer-alignment",
    "InferFunctionAttrsPass": "inferattrs",
    "InjectTLIMappings": "inject-tli-mappings",
    "InlinerPass": "inline",
    "InstCombinePass": "instcombine",
    "InstSimplifyPass": "instsimplify",
    "JumpThreadingPass": "jump-threading",
    "LCSSAPass": "lcssa",
    "LICMPass": "licm",
    "LibCallsShrinkWrapPass": "libcalls-shrinkwrap",
    "LoopDeletionPass": "loop-deletion",
    "LoopDistributePass": "loop-distribute",
    "LoopFullUnrollPass": "loop-unroll-full",
    "LoopIdiomRecognizePass": "loop-idiom",
    "LoopInstSimplifyPass": "loop-instsimplify",
    "LoopLoadEliminationPass": "loop-load-elim",
    "LoopRotatePass": "loop-rotate",
    "LoopSimplifyCFGPass": "loop-simplifycfg",
    "LoopSimplifyPass": "loop-simplify",
    "LoopSinkPass": "loop-sink",
    "LoopUnrollPass": "loop-unroll",
    "LoopVectorizePass": "loop-vectorize",
    "LowerConstantIntrinsicsPass": "lower-constant-intrinsics",
    "LowerExpectIntrinsicPass": "lower-expect",
    "MemCpyOptPass": "memcpyopt",
    "MemProfRemoveInfo": "memprof-remove-attributes",
    "MergedLoadStoreMotionPass": "mldst-motion",
    "MoveAutoInitPass": "move-auto-init",
    "OpenMPOptCGSCCPass": "openmp-opt-cgscc",
    "OpenMPOptPass": "openmp-opt",
    "PostOrderFunctionAttrsPass": "function-attrs",
    "PromotePass": "mem2reg",
    "ReassociatePass": "reassociate",
    "RecomputeGlobalsAAPass": "recompute-globalsaa",
    "RelLookupTableConverterPass": "rel-lookup-table-converter",
    "ReversePostOrderFunctionAttrsPass": "rpo-function-attrs",
    "SCCPPass": "sccp",
    "SLPVectorizerPass": "slp-vectorizer",
    "SROAPass": "sroa",
    "SimpleLoopUnswitchPass": "simple-loop-unswitch",
    "SimplifyCFGPass": "simplifycfg",
    "SpeculativeExecutionPass": "speculative-execution",
    "TailCallElimPass": "tailcallelim",
    "VectorCombinePass": "vector-combine",
    "WarnMissedTransformationsPass": "transform-warning",
}

# Those that stand only in llvmlite's one-by-one list, or that every pipeline runs.
_OTHERS = {
    "AlwaysInlinerPass": "always-inline",
    "BreakCriticalEdgesPass": "break-crit-edges",
    "DCEPass": "dce",
    "InstructionNamerPass": "instnamer",
    "LoopStrengthReducePass": "loop-reduce",
    "LoopUnrollAndJamPass": "loop-unroll-and-jam",
    "LowerAtomicPass": "lower-atomic",
    "LowerInvokePass": "lower-invoke",
    "LowerSwitchPass": "lower-switch",
    "MergeFunctionsPass": "mergefunc",
    "NewGVNPass": "newgvn",
    "PartialInlinerPass": "partial-inliner",
    "RegToMemPass": "reg2mem",
    "SinkingPass": "sink",
    "UnifyFunctionExitNodesPass": "mergereturn",
}

# What loop passes take for granted; the default pipeline runs these two before each of them.
_LOOP_FORM = ("loop-simplify", "lcssa")
_ON_LOOPS = ("licm", "indvars", "simple-loop-unswitch", "loop-")
# Parts of the default pipeline that change nothing in a cell, or that the session relies on.
_NOT_FOR_CELLS = frozenset(
    (
        "annotation2metadata", "cg-profile", "coro-annotation-elide", "forceattrs",
        "memprof-remove-attributes", "openmp-opt", "openmp-opt-cgscc", "recompute-globalsaa",
        "transform-warning",
    )
)  # fmt: skip

IN_DEFAULT = frozenset(CLASSES.values()) - frozenset(SINGLE) - _NOT_FOR_CELLS | {"jump-threading"}
KNOWN = tuple(sorted(IN_DEFAULT | frozenset(SINGLE)))


def name_of(class_name: str) -> str:
    """The pipeline name of a pass that a log calls by its class: `SROAPass` is `sroa`."""
    plain = class_name.partition("<")[0]
    return CLASSES.get(plain) or _OTHERS.get(plain) or plain.removesuffix("Pass")


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
