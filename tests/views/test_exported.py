"""Views of code in exported notebooks: every number is still there, every image has its words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from stripped import assert_complete

from jitkernel import Session, views
from jitkernel.errors import Fault
from jitkernel.views import View
from jitkernel.views.foreign import foreign
from tests.seeds import few

PROGRAM = """\
@k = global i64 3
@deep = global [4 x ptr] [ptr @total, ptr @k, ptr null, ptr @missing]
declare i64 @missing(i64)
define i64 @total(i64 %n) uwtable {
entry:
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %j, %l ]
  %v = load volatile i64, ptr @k
  %j = add i64 %i, %v
  %c = icmp slt i64 %j, %n
  br i1 %c, label %l, label %d
d:
  %e = icmp eq i64 %j, 3
  br i1 %e, label %x, label %y
x:
  %r = call i64 @missing(i64 %j)
  ret i64 %r
y:
  ret i64 %j
}
define i64 @crash(ptr %p) uwtable {
  %v = load volatile i64, ptr %p
  %w = call i64 @total(i64 %v)
  ret i64 %w
}
"""


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, View]]:
    with Session(capacity=64 << 20) as s:
        s.run(PROGRAM)
        with pytest.raises(Fault):
            s.run("@crash(null)")
        yield {
            "asm": views.asm(s, 1),
            "asm att": views.asm(s, "total", "att"),
            "asm aarch64": foreign(s, 1, "aarch64"),
            "object": views.object(s, 1),
            "cfg": views.cfg(s, "total"),
            "cfg raw": views.cfg(s, 1, raw=True),
            "callgraph": views.callgraph(s),
            "stack": views.stack(s),
            "compare": views.compare(s, "@total", levels=[0, 2], arguments="5"),
            "compare machines": views.compare(s, "@total", machines=["aarch64", "s390x"]),
        }


NAMES = [
    "asm", "asm att", "asm aarch64", "object", "cfg", "cfg raw", "callgraph", "stack", "compare",
    "compare machines",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_without_styling(shown: dict[str, View], name: str) -> None:
    assert_complete(shown[name])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", few(["html", "markdown"], 1))
def test_it_holds_in_an_exported_notebook(shown: dict[str, View], name: str, form: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    exporters = pytest.importorskip("nbconvert.exporters")
    view = shown[name]
    output = nbformat.v4.new_output("display_data", view._repr_mimebundle_())
    cell = nbformat.v4.new_code_cell(f"%{name}", outputs=[output])
    book = nbformat.v4.new_notebook(cells=[cell])
    exporter = exporters.HTMLExporter() if form == "html" else exporters.MarkdownExporter()
    body, _ = exporter.from_notebook_node(book)
    for number in re.findall(r"(?<![\w.])(?:0x[0-9a-f]+|\d+(?:\.\d+)?)(?![\w.…])", view.text):
        assert number in body, number
    images = re.findall(r"<img\b[^>]*>", body)
    assert len(images) >= view.html.count("<img ")
    assert all(re.search(r'\balt="[^"]+"', image) for image in images)
