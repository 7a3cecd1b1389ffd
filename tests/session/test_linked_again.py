"""Objects of other compilers that are linked again: what they replace goes, and comes back."""

from __future__ import annotations

from growing import function, strong


def test_an_object_takes_the_place_of_what_had_its_names(s, tmp_path):
    path = tmp_path / "code.o"
    path.write_bytes(strong(s.compile(function("linked", 3)).compiled.object))
    s.run(function("linked", 1))
    for _ in range(3):
        s.link(str(path))
    assert len(s.cells) == 1 and s.call("linked") == 3
    s.check()
    for _ in range(3):
        s.undo()
    assert len(s.cells) == 1 and s.call("linked") == 1
    s.check()
