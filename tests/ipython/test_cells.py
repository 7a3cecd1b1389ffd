"""`%load_ext jitkernel` in a shell of this process: cells, names, magics, errors."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from IPython.utils.capture import capture_output

import jitkernel
from tests.busy import soon
from tests.processes import gone

SQ = "%%llvm\ndefine i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n"
CUBE = SQ.replace("%r = mul i32 %x, %x", "%y = mul i32 %x, %x\n  %r = mul i32 %y, %x")
HEY = "%%llvm\ndefine void @hey(ptr %s) {\n  %r = call i32 @puts(ptr %s)\n  ret void\n}\n"


def test_loading_says_one_line_and_starts_nothing(bare) -> None:
    shown = bare.ok("%load_ext jitkernel").strip()
    assert len(shown.splitlines()) == 1
    assert "%%llvm, %%c, %%kaleidoscope" in shown and shown.endswith("%jit help")
    from jitkernel.ipython import extension

    assert extension._extensions.pop(id(bare.shell)).notebook.started is None


def test_a_cell_s_value_is_out_and_underscore(ip) -> None:
    shown = ip.ok(SQ + "@sq(7)")
    assert shown.rstrip().endswith("i32 49")
    assert ip.names["_"].value == 49 and ip.names["Out"][ip.shell.execution_count - 1].value == 49
    ip.ok("%%llvm\n@n = i32 5")
    before = dict(ip.names["Out"])
    ip.ok("%%llvm\n@n = i32 6")  # no value, no Out
    assert ip.names["Out"] == before


def test_a_cell_has_the_number_that_ipython_counts(ip) -> None:
    ip.ok("1 + 1")
    shown = ip.ok(SQ + "@sq(7)")
    assert "cell 3: @sq i32 (i32)" in shown  # 1 was %load_ext, 2 is Python's
    assert ip.ok("%%llvm\n@sq(_3)").rstrip().endswith("i32 2401")


def test_functions_have_names_in_python(ip) -> None:
    shown = ip.ok(SQ)
    assert "in Python: sq(x: int) -> int" in shown
    assert ip.ok("sq(8)").rstrip().endswith("64")
    sq = ip.names["sq"]
    shown = ip.ok(CUBE)
    assert ip.names["sq"] is sq and sq(3) == 27  # it follows
    assert "in Python" not in shown  # nothing is new there
    assert str(inspect.signature(sq)) == "(x: int) -> int"


def test_a_name_of_the_user_s_is_left_alone_and_that_is_said(ip) -> None:
    ip.ok("def sq(x): return 'mine'")
    shown = ip.ok(SQ)
    assert "sq is a name of Python's or yours, left alone" in shown
    assert 'jitkernel.session["sq"]' in shown
    assert ip.names["sq"](3) == "mine" and jitkernel.session["sq"](3) == 9
    assert "left alone" not in ip.ok("%jit cells")  # it was said
    assert "left alone" in ip.ok(SQ)
    ip.ok("del sq")
    ip.ok(SQ)  # free by now
    assert ip.names["sq"](3) == 9


def test_what_the_user_puts_in_its_place_stays(ip) -> None:
    ip.ok(SQ)
    ip.ok("def sq(x): return 'mine'")
    ip.ok(CUBE)
    ip.ok("%jit evict @sq")
    assert ip.names["sq"](3) == "mine"


def test_names_that_python_has_built_in_are_left_alone(ip) -> None:
    shown = ip.ok("%%llvm\ndefine i32 @max(i32 %x) {\n  ret i32 %x\n}")
    assert "max is a name" in shown and "max" not in ip.names


@pytest.mark.parametrize("name", ["a.b", "class", "_", "_7", '"a b"'])
def test_what_is_no_name_in_python_is_reached_by_the_session(ip, name) -> None:
    before = dict(ip.names)
    shown = ip.ok(f"%%llvm\ndefine i32 @{name}(i32 %x) {{\n  ret i32 %x\n}}")
    plain = name.strip('"')
    assert f"jitkernel.session[{plain!r}]" in shown or name == "_"
    assert jitkernel.session[plain](4) == 4
    assert ip.names.get("_") == before.get("_")


def test_undo_evict_and_redo_take_names_and_bring_them_back(ip) -> None:
    ip.ok(SQ)
    ip.ok("%jit undo")
    assert "sq" not in ip.names
    ip.ok("%jit redo")
    assert ip.names["sq"](5) == 25
    ip.ok(
        "jitkernel = __import__('jitkernel'); gone = jitkernel.session.evict('sq')"
    )  # from Python
    assert "sq" not in ip.names


def test_running_a_notebook_s_cell_again_replaces_what_it_defined(ip) -> None:
    ip.ok(SQ, cell_id="a")
    ip.ok(SQ.replace("@sq", "@square"), cell_id="a")
    assert "sq" not in ip.names and ip.names["square"](3) == 9
    several = 'for name in "fg":\n    get_ipython().run_cell_magic("llvm", "", "define i32 @%s() {\\n  ret i32 1\\n}" % name)'
    ip.ok(several, cell_id="b")  # one cell of Python, two of the session
    assert ip.names["f"]() == ip.names["g"]() == 1


def test_jit_is_every_magic_of_the_kernel(ip) -> None:
    ip.ok(SQ)
    assert "imul" in ip.ok("%jit asm @sq")
    assert "cell" in ip.ok("%jit cells")
    assert "a call" in ip.ok("%jit timeit -n 2 -r 1 @sq(3)")
    assert "a call" in ip.ok("%%jit timeit -n 2 -r 1\n@sq(3)")
    assert "a call" in ip.ok("%jit timeit -n 2 -r 1 --language kaleidoscope 1 + 2")
    assert ip.ok("%jit @sq(9)").rstrip().endswith("i32 81")
    assert "r0" in ip.ok("%jit analysis --example linear_scan --on @sq")  # IPython wants no cell
    assert ip.ok("%jit %time @sq(9)").count("i32 81") == 1
    shown = ip.ok("%jit help")
    assert "%NAME is written %jit NAME" in shown and "%evict" in shown
    assert "usage: %undo" in ip.ok("%jit help undo")
    assert "%timeit needs a call" in ip.fails("%jit timeit").replace("%jit timeit", "%timeit")


def test_magics_in_messages_are_written_as_they_are_typed_here(ip) -> None:
    ip.ok(SQ)
    ip.ok("%%llvm\ndefine i32 @four(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  ret i32 %r\n}")
    ip.ok(SQ.replace("@sq", "@other"), cell_id="a")
    ip.ok("%%llvm\ndefine i32 @five(i32 %x) {\n  %r = call i32 @other(i32 %x)\n  ret i32 %r\n}")
    shown = ip.ok(SQ.replace("@sq", "@another"), cell_id="a")
    assert "still calls the old one. %jit evict @other --cascade" in shown
    assert "%jit help lists" in ip.fails("%jit nonsense")
    assert "write %%llvm" in ip.fails("%jit llvm") and "write %%jit pass" in ip.fails("%jit pass")
    ip.ok(f'%%llvm\n@long = global [30001 x i8] c"{"n" * 30_001}"')
    assert "more letters; %jit ir @long --all shows all" in ip.ok("%jit ir @long")
    assert "…" not in ip.ok("%jit ir @long --all")
    # ... and source is not touched
    shown = ip.fails("%%llvm\n%time = add i32 1, true")
    assert "  %time = add i32 1, true" in shown


def test_errors_name_the_cell_s_own_line(ip) -> None:
    bad = "%%llvm\ndefine i32 @bad(i32 %x) {\n  ret i64 %x\n}"
    assert "line 3, column 11" in ip.fails(bad)
    assert "line 5, column 11" in ip.fails("\n\n" + bad)
    shown = ip.fails("%%c\nint f(void) { return nope; }")
    assert "line 2, column 22" in shown and len(shown.splitlines()) < 10


def test_a_crash_leaves_all_in_order(ip) -> None:
    ip.ok(SQ)
    shown = ip.fails("%%llvm\n%v = load volatile i64, ptr null")
    assert "Fault: read of address 0" in shown and "line 2" in shown and "Kept: 1 function" in shown
    assert "Traceback" not in shown
    ip.ok("%%llvm\ndefine void @boom() {\n  store volatile i32 1, ptr null\n  ret void\n}")
    shown = ip.fails("x = 1\nboom()")
    assert "boom()" in shown and "Fault: write to address 0" in shown
    assert ip.names["sq"](6) == 36


def test_what_is_printed_is_seen_in_cells_and_calls(ip) -> None:
    assert ip.ok(HEY + '@hey("from a cell")').startswith("cell ")
    assert ip.ok("hey('from a call')") == "from a call\n"
    assert ip.ok('%jit @hey("from a magic")') == "from a magic\n"
    with capture_output() as captured:
        ip.shell.run_cell("hey('captured')")
    assert captured.stdout == "captured\n"
    assert "hidden" not in ip.ok("%%capture kept\nhey('hidden')")
    assert ip.names["kept"].stdout == "hidden\n"


def test_output_is_cut_as_in_the_kernel(ip) -> None:
    ip.ok("%jit config JITKernel.max_output=1000")
    ip.ok(HEY)
    shown = ip.ok("for _i in range(100): hey('0123456789' * 10)")
    assert (
        len(shown) < 1200
        and "[output cut at 1000 bytes: JITKernel.max_output; the rest is in " in shown
    )
    assert ip.ok("hey('on')") == "on\n"


def test_braces_and_dollars_are_the_cell_s(ip) -> None:
    ip.ok("i32 = 'not this'")
    assert ip.ok('%jit @printf("{i32} $i32")').startswith("{i32} $i32")


def test_loading_again_is_harmless(ip) -> None:
    ip.ok(SQ)
    session = jitkernel.session
    ip.ok("%reload_ext jitkernel")
    ip.ok("%load_ext jitkernel")
    assert jitkernel.session is session and ip.names["sq"](4) == 16
    assert ip.ok(CUBE).count("@sq i32 (i32)") == 1
    assert len(ip.shell.events.callbacks["post_run_cell"]) == 1
    ip.ok("%unload_ext jitkernel")
    assert "not found" in ip.run(SQ)[1] and ip.names["sq"](2) == 8
    ip.ok("%load_ext jitkernel")
    assert ip.ok(SQ + "@sq(2)").rstrip().endswith("i32 4")


def test_a_session_that_was_closed_is_followed_by_another(ip) -> None:
    ip.ok(SQ)
    jitkernel.session.close()
    assert ip.ok(CUBE + "@sq(2)").rstrip().endswith("i32 8")
    assert ip.names["sq"](2) == 8


def test_a_session_that_is_restored_has_its_names(ip, tmp_path) -> None:
    ip.ok(SQ)
    path = tmp_path / "work.jks"
    ip.ok(f"%jit save {path}")
    ip.ok(HEY)
    ip.ok(f"%jit restore {path}")
    assert ip.names["sq"](3) == 9 and "hey" not in ip.names


def test_the_names_that_messages_have_are_there(ip) -> None:
    assert "starts with the first cell" in ip.ok("session") and ip.names["jitkernel"] is jitkernel
    from jitkernel.ipython import extension

    assert extension._extensions[id(ip.shell)].notebook.started is None
    ip.ok("%%c\nint seven = 7;")
    assert ip.names["session"] is getattr(jitkernel, "session")  # noqa: B009 (no module here)
    ip.names["session"].close()
    ip.ok("%%c\nint eight = 8;")
    assert "8" in ip.ok("session['eight'].value")
    ip.ok("session = 5\n%reload_ext jitkernel")
    ip.names["jitkernel"].session.close()
    ip.ok("%%c\nint nine = 9;")
    assert ip.names["session"] == 5


def test_asking_the_session_that_is_to_be_starts_it(ip) -> None:
    ip.ok("session.run('int ten = 10;', 'c')")
    assert "10" in ip.ok("session['ten'].value")


def test_what_holds_from_the_start_can_be_set_until_the_first_cell(ip) -> None:
    from jitkernel.ipython import extension

    ip.ok("%jit config Arena.capacity=64M")
    ip.ok("%jit config Session.undo_depth=7")
    ip.ok("%jit help")
    assert extension._extensions[id(ip.shell)].notebook.started is None
    ip.ok(SQ)
    settings = getattr(jitkernel, "session").settings  # noqa: B009 (no module here)
    assert (settings.capacity, settings.undo_depth) == (64 << 20, 7)
    assert "set it before the first cell" in ip.fails("%jit config Arena.capacity=32M")
    ip.ok("%jit config Session.undo_depth=8")
    assert settings.undo_depth == 8


def test_other_people_s_magics_stay(bare) -> None:
    bare.shell.register_magic_function(lambda line, cell: "theirs", "cell", "c")
    shown = bare.ok("%load_ext jitkernel")
    assert "%%c is another extension's; here it is %%jit c" in shown
    assert "theirs" in bare.ok("%%c\nint x;")
    assert bare.ok("%%jit c\n40 + 2").rstrip().endswith("(int) 42")
    jitkernel.session.close()


def test_the_package_is_what_it_was_for_imports(ip) -> None:
    from jitkernel.session import Session
    from jitkernel.session.settings import options_for

    assert isinstance(jitkernel.session, Session) and callable(options_for)


def test_languages_that_are_added_later(ip, tmp_path) -> None:
    file = tmp_path / "upper.py"
    file.write_text(
        "from jitkernel.languages import Language, find\n"
        "from dataclasses import replace\n"
        'LANGUAGE = replace(find("kaleidoscope"), name="upper", display_name="Upper")\n'
    )
    ip.ok(f"%jit language {file}")
    assert ip.ok("%%upper\ndef twice(x) x+x\ntwice(4)").rstrip().endswith("8.0")


def test_nothing_imports_numpy_and_the_session_ends_with_the_process() -> None:
    code = (
        "import sys, os\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('%load_ext jitkernel')\n"
        f"shell.run_cell({SQ + '@sq(7)'!r})\n"
        "assert 'numpy' not in sys.modules\n"
        "assert 'llvmlite' not in sys.modules\n"
        "import psutil\n"
        "print('pids', *[p.pid for p in psutil.Process().children(recursive=True)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("pids")]
    pids = line.split()[1:]
    assert len(pids) > 1 and not done.stderr, done.stderr
    assert all(gone(int(pid)) for pid in pids)


COUNT = "%%jit analysis count --on @sq\ndef count(function):\n"


def test_analyses_in_a_python_notebook(ip, tmp_path) -> None:
    """What they give, with mistakes, with HTML, stopped; the session is as it was."""
    ip.ok(SQ)
    assert "\n1\n" in ip.ok(f"{COUNT}  return len(function.blocks)")
    assert "opcode  uses" in ip.ok(
        f"{COUNT}  for i in function.instructions:\n"
        "    yield {'opcode': i.opcode, 'uses': len(i.uses)}"
    )
    assert "It gave nothing" in ip.ok(f"{COUNT}  pass")
    typo = ip.fails(f"{COUNT}  return function.blcoks")
    assert "no attribute 'blcoks'" in typo and "line 3, in count: return" in typo
    assert "SyntaxError" in ip.fails(COUNT + "  return (")
    assert "took longer than 0.5 s" in ip.fails(
        f"{COUNT.replace('count', 'count --timeout 0.5', 1)}  while True: pass"
    )
    page = "class Page:\n  def _repr_html_(self): return '<b>x</b>'\n"
    html = ip.ok(COUNT.replace("def", f"{page}def") + "  return Page()")
    assert "shown as HTML" in html
    begun, press = tmp_path / "begun", partial(os.kill, os.getpid(), signal.SIGINT)
    endless = COUNT.replace("count", "count --timeout 60", 1)
    endless += f"  open({str(begun)!r}, 'w').close()\n  while True: pass"
    with soon(lambda: begun.exists() and press() is None):
        result, _ = ip.run(endless)
    assert "interrupted in the analysis count" in str(result.error_in_exec)
    assert ip.ok("%%llvm\n@sq(3)").rstrip().endswith("9")


@pytest.mark.parametrize(
    ("cell", "written"),
    [("%check", "%jit check"), ("%evict @f", "%jit evict"), ("%%check\nx", "%%jit check")],
)
def test_a_magic_of_the_kernel_s_says_how_it_is_written_here(ip, cell, written) -> None:
    name = cell.split()[0]
    shown = ip.fails(cell)
    assert f"`{name}` not found" in shown
    assert f"hint: {name} is written {written} in a notebook of Python" in shown
    assert "hint" not in ip.fails("%nobodys_magic")
