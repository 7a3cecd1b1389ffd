"""Magics that show data of the program: curves, images, tables, lists and trees, structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel import views
from jitkernel.errors import UsageError
from jitkernel.kernel.magics.parsing import ALL, room
from jitkernel.kernel.magics.registry import Argument, magic

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_WHAT = Argument(
    "what", "a variable, or an expression of C: m[3], p->items", "*", completes="expression"
)
_COUNT = Argument("--count", "so many elements; a pointer needs it", "", int, least=1)
_FIRST = Argument("--first", "from this element on", "", int, default=0, least=0)


def _expression(arguments: Any, name: str, what: str = "a variable or an expression") -> str:
    if not arguments.what:
        raise UsageError(f"%{name} needs {what}: %{name} a")
    return " ".join(arguments.what)


@magic(
    "plot",
    _WHAT,
    Argument("--image", "a matrix as an image", "flag"),
    Argument("--x", "the member that gives the places on the axis", value="MEMBER"),
    _COUNT,
    _FIRST,
    example="%plot samples --count 100",
)
def plot(context: Frontend, arguments: Any) -> None:
    """An array of the program as a curve: of structs one for each member, of a matrix one for each
    row. A large matrix is an image, three bytes in its last place are colours. While the program
    stands in the debugger, of its frame. Nothing runs."""
    text = _expression(arguments, "plot")
    view = views.plot(
        context.session, text, as_image=arguments.image, count=arguments.count,
        first=arguments.first, x=arguments.x or "",
    )  # fmt: skip
    context.display(view)


@magic("table", _WHAT, _COUNT, _FIRST, example="%table points --count 20")
def table(context: Frontend, arguments: Any) -> None:
    """An array of the program as a table: elements are rows, members of structs are columns."""
    text = _expression(arguments, "table")
    context.display(views.rows(context.session, text, count=arguments.count, first=arguments.first))


@magic(
    "draw",
    _WHAT,
    Argument("--most", "at most so many objects", "", int, default=40, least=1),
    example="%draw head",
)
def draw(context: Frontend, arguments: Any) -> None:
    """A list, a tree or any objects that lead to each other by pointers, drawn: what leads back,
    to nothing, or to memory that is not there, is told."""
    text = _expression(arguments, "draw")
    context.display(views.draw(context.session, text, arguments.most))


@magic(
    "layout",
    Argument(
        "what", "a type (struct s, size_t, { i8, i32 }) or an expression", "*", completes="type"
    ),
    ALL,
    example="%layout struct s",
)
def layout(context: Frontend, arguments: Any) -> None:
    """A struct byte by byte: where its members lie, what is padding, and the order that would be
    smaller; of a variable with its values."""
    text = _expression(arguments, "layout", "a type, a variable or an expression")
    context.display(views.layout(context.session, text, room(arguments)))
