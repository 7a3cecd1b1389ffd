"""papermill: parameters written as cells of ours, and notebooks whose errors are meant.

papermill has no entry points for translators of parameters, and counts every error output as a
failure, also in a cell tagged `raises-exception`.  It loads this module as an engine (the entry
point is in `pyproject.toml`) whenever it is imported.  Then the translators are registered, and
the engine takes the place of papermill's own, from which it differs in notebooks of our kernels
alone.  Start from `JITKernelEngine`, `LLVMTranslator`.  Import papermill first.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any

from papermill.engines import NBClientEngine, papermill_engines
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators

from jitkernel.ir.names import NAME, decode_name, escaped, written
from jitkernel.regex import regex

_ASSIGNED = regex(rf"^\s*@({NAME})\s*=\s*([^;\n]+?)\s*(?:;\s*(.*))?$", re.M)
_FUNCTION = regex(r"^\s*def\s+([A-Za-z]\w*)\s*\(\s*\)\s*([^#\n]+?)\s*(?:#\s*(.*))?$", re.M)
_TYPE = regex(r"(?:global\s+|constant\s+)?(\[.*?\]|<.*?>|\{.*?\}|[A-Za-z]\w*)\s+(.*)$")


class LLVMTranslator(Translator):
    """`-p n 7` becomes `@n = 7`: a value for the global that the cell tagged `parameters` defines,
    whose type says how wide the number is."""

    @classmethod
    def translate_str(cls, val: str) -> str:
        """Printable ASCII as it is, other bytes of the UTF-8 as `\\XX`."""
        return f'"{escaped(val.encode())}"'

    @classmethod
    def translate_none(cls, val: None) -> str:
        return "null"

    @classmethod
    def translate_float(cls, val: float) -> str:
        """As LLVM reads it: infinities and NaN have no words, only their bits."""
        return repr(val) if math.isfinite(val) else f"0x{struct.pack('>d', val).hex().upper()}"

    @classmethod
    def translate_list(cls, val: list[Any]) -> str:
        return "[" + ", ".join(map(cls.translate, val)) + "]"

    @classmethod
    def translate_dict(cls, val: dict[str, Any]) -> str:
        raise NotImplementedError("a parameter is a number, a text, a truth value or a list")

    @classmethod
    def comment(cls, cmt_str: str) -> str:
        return f"; {cmt_str}".strip()

    @classmethod
    def assign(cls, name: str, str_val: str) -> str:
        return f"{written(name)} = {str_val}"

    @classmethod
    def inspect(cls, parameters_cell: Any) -> list[Parameter]:
        """The parameters for `papermill --help-notebook`: globals with their types and values."""
        found = []
        for name, value, words in _ASSIGNED.findall(parameters_cell["source"]):
            typed = _TYPE.match(value)
            type, default = typed.groups() if typed else ("None", value)
            found.append(Parameter(decode_name(name), type, default, words))
        return found


class KaleidoscopeTranslator(Translator):
    """`-p n 7` becomes `def n() 7`, since the language has numbers and functions only."""

    @classmethod
    def translate_float(cls, val: float) -> str:
        """Without exponent, and a negative one as a difference: the language has neither."""
        if not math.isfinite(val):
            raise NotImplementedError(f"{val} cannot be written in Kaleidoscope")
        digits = f"{abs(val):d}" if isinstance(val, int) else f"{Decimal(repr(abs(val))):f}"
        return f"(0 - {digits})" if val < 0 else digits

    translate_int = translate_float

    @classmethod
    def translate_bool(cls, val: bool) -> str:
        return "1" if val else "0"

    @classmethod
    def _refuse(cls, val: object) -> str:
        raise NotImplementedError("a parameter of a Kaleidoscope notebook is a number")

    translate_str = translate_none = translate_list = translate_dict = _refuse

    @classmethod
    def comment(cls, cmt_str: str) -> str:
        return f"# {cmt_str}".strip()

    @classmethod
    def assign(cls, name: str, str_val: str) -> str:
        return f"def {name}() {str_val};"

    @classmethod
    def inspect(cls, parameters_cell: Any) -> list[Parameter]:
        found = _FUNCTION.findall(parameters_cell["source"])
        return [Parameter(name, "double", v.rstrip("; "), words) for name, v, words in found]


class JITKernelEngine(NBClientEngine):
    """papermill's engine; in a notebook of ours, what fails as it is meant to does not count."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Run the cells.  The error of a cell tagged `raises-exception` becomes text of its own."""
        try:
            return super().execute_managed_notebook(nb_man, kernel_name, *args, **kwargs)
        finally:
            name = kernel_name or nb_man.nb.metadata.get("kernelspec", {}).get("name", "")
            if name == "jitkernel" or name.startswith("jitkernel-"):
                for cell in nb_man.nb.cells:
                    _tell_meant_errors(cell)


def _tell_meant_errors(cell: Any) -> None:
    """Errors of a tagged cell as output to stderr, where papermill does not look for failures."""
    if "raises-exception" not in cell.metadata.get("tags", ()):
        return
    for output in cell.get("outputs", ()):
        if output["output_type"] == "error":
            text = "expected error\n" + "\n".join(output["traceback"]) + "\n"
            output.clear()
            output.update(output_type="stream", name="stderr", text=text)


def _register() -> None:
    for names, translator in (
        (("jitkernel", "llvm"), LLVMTranslator),
        (("jitkernel-kaleidoscope", "kaleidoscope"), KaleidoscopeTranslator),
    ):
        for name in names:
            papermill_translators.register(name, translator)
    # Another package may have set an engine of its own: that one stays.
    if papermill_engines.get_engine(None) is NBClientEngine:
        papermill_engines.register(None, JITKernelEngine)


_register()
