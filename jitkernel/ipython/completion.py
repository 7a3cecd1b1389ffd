"""TAB in `%jit` lines and in cells of languages: what the kernel offers.  Start from `matcher`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from jitkernel.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.completer import CompletionContext

    from jitkernel.ipython.notebook import Notebook

_JIT = regex(r"(%{1,2})jit[ \t]+")


def matcher(notebook: Notebook) -> Callable[[CompletionContext], Any]:
    """A matcher for IPython's completer; it has nothing outside our magics."""

    @context_matcher(identifier="jitkernel")  # type: ignore[untyped-decorator]
    def jitkernel_matcher(context: CompletionContext) -> Any:
        found = ours(context.full_text, context.cursor_line, context.cursor_position)
        if found is None:
            return {"completions": [], "suppress": False}
        from jitkernel.kernel.completion import complete

        code, position, lead = found
        reply = complete(notebook.frontend, code, position)
        start = reply["cursor_start"]
        fragment, mark = code[start:position], ""
        if lead and start == 0:  # the magic's own name: its marks stand before `jit`
            mark = re.match("%*", fragment)[0]  # type: ignore[index]
            fragment = fragment[len(mark) :]
        return {
            "completions": [
                SimpleCompletion(each["text"].removeprefix(mark), type=each["type"])
                for each in reply["metadata"]["_jupyter_types_experimental"]
            ],
            "matched_fragment": fragment,
            "suppress": True,
            "ordered": True,
        }

    return jitkernel_matcher  # type: ignore[no-any-return]


def ours(text: str, line: int, column: int) -> tuple[str, int, bool] | None:
    """The cell as a kernel would have it, the position there, and whether `jit` was taken out of
    that line; None where the completion is not ours."""
    from jitkernel.languages.registry import OWN, _loaded

    lines = text.split("\n")
    here = lines[line]
    jit = _JIT.match(here.lstrip())
    if jit is not None and (line == 0 or jit[1] == "%"):
        indent = len(here) - len(here.lstrip())
        rest = here[indent + jit.end() :].lstrip("%")
        code = jit[1] + rest
        return code, max(len(jit[1]), len(code) - (len(here) - column)), True
    first = next((each for each in lines if each.strip()), "").strip()
    name = first.partition(" ")[0].removeprefix("%%")
    behind = line > 0 or len(here[:column].split(None, 1)) > 1 or here[:column].endswith(" ")
    if first.startswith("%%") and (name in OWN or name in _loaded) and behind:
        return text, sum(len(each) + 1 for each in lines[:line]) + column, False
    return None
