"""Magics about languages: `%%kaleidoscope` and its like, `%language`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.kernel.magics.compiling import COMPILE_OPTIONS, cell_options
from jitkernel.kernel.magics.table import Argument, Magic

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS", "language_magic"]


def language_magic(name: str, shown: str, example: str = "") -> Magic:
    """`%%name`: the rest of the cell in that language."""

    def call(frontend: Frontend, arguments: Any) -> Any:
        options = cell_options(arguments)
        return frontend.execute(arguments.body, arguments.cell_id, options, name)

    help = f"Run the rest of the cell as {shown}, in the same program as all other cells."
    return Magic(name, help, call, COMPILE_OPTIONS, form="cell", example=example)


def language(frontend: Frontend, arguments: Any) -> None:
    from jitkernel import languages
    from jitkernel.views.view import table

    if arguments.file:
        found = languages.load_file(arguments.file)
        frontend.print(f"%%{found.name} cells are read by {arguments.file} now")
        return
    default = frontend.setting("JITKernel.default_language")
    rows = []
    for name in languages.names():
        found = languages.find(name)
        use = "every cell without %%" if name == default else f"%%{name}"
        rows.append((name, found.display_name or name, use, found.file_extension))
    frontend.display(table("Languages of cells", ("name", "language", "used by", "files"), rows))


MAGICS = (
    language_magic("kaleidoscope", "Kaleidoscope, the language of LLVM's tutorial"),
    Magic(
        "language",
        "The languages that cells can be written in; with a Python file, add the one that it names"
        " LANGUAGE.",
        language,
        (Argument("file", "a Python file", "?", completes="file"),),
        example="%language forth.py",
    ),
)
