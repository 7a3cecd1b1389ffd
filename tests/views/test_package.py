"""The package's functions, however and whenever they are imported."""

from __future__ import annotations

from types import FunctionType

import pytest

from jitkernel import views
from tests.processes import python


@pytest.mark.parametrize("name", views.__all__)
def test_every_name_is_there(name):
    found = getattr(views, name)
    assert isinstance(found, type if name == "View" else FunctionType)


@pytest.mark.parametrize(
    "program",
    [
        "from jitkernel import views; import jitkernel.views.asm; assert callable(views.asm)",
        "from jitkernel.views.asm import asm; from jitkernel import views; assert views.asm is asm",
        "from jitkernel.views import asm, cells, tables; assert tables.cells is cells and callable(asm)",
        "from jitkernel.views import *; assert callable(arena) and callable(symbols)",
        "import jitkernel.views.view, sys; assert 'jitkernel.views.asm' not in sys.modules",
    ],
)
def test_functions_are_not_hidden_by_the_modules_of_their_names(program):
    python(program)


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"jitkernel\.views.*nothing"):
        views.nothing  # type: ignore[attr-defined]  # noqa: B018
