"""What gcc and clang add to code that they instrument, by the names of the runtimes that it calls.

Start from `remedy`.  Those runtimes take a process over from its beginning: they cannot come later.
"""

from __future__ import annotations

#: GCC manual, "Program Instrumentation Options"; clang's "SanitizerCoverage", "Source-based Code
#: Coverage".
_FLAGS = {
    "__gcov_": "--coverage or -fprofile-generate", "__llvm_gcov_": "--coverage",
    "__llvm_profile_": "-fprofile-instr-generate", "__asan_": "-fsanitize=address",
    "__hwasan_": "-fsanitize=hwaddress", "__tsan_": "-fsanitize=thread",
    "__msan_": "-fsanitize=memory", "__dfsan_": "-fsanitize=dataflow",
    "__ubsan_": "-fsanitize=undefined", "__sanitizer_cov_": "-fsanitize-coverage",
    "__cyg_profile_func_": "-finstrument-functions",
}  # fmt: skip


def remedy(name: str) -> str:
    """Advice on code that wants a name; "" where it is none that a compiler adds."""
    for prefix, flag in _FLAGS.items():
        if name.startswith(prefix):
            return f"the object was compiled with {flag}: compile it without, and link that"
    if name == "__cpu_features2":
        return "libgcc_s has no such features: ask the processor itself, by <cpuid.h>"
    return ""
