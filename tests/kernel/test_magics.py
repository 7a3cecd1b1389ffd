"""Every magic of day one, through a real kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from jitkernel.kernel.client import outputs_text
from jitkernel.kernel.displays import plain
from tests.kernel.conftest import Kernel

SQ = "define i32 @sq(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}"
USES = "define i32 @twice(i32 %x) {\n  %y = call i32 @sq(i32 %x)\n  ret i32 %y\n}"


@pytest.fixture(autouse=True)
def fresh(kernel: Kernel) -> None:
    kernel.ok("%reset")


def number_of(kernel: Kernel, source: str) -> int:
    reply, _ = kernel.run(source)
    assert reply["status"] == "ok"
    return reply["execution_count"]


def test_status_line_says_what_was_defined(kernel: Kernel) -> None:
    text = kernel.ok(SQ)
    assert re.search(
        r"cell \d+: @sq i32 \(i32\), 6 bytes, "
        r"compiled (in [\d.]+ ms|earlier in [\d.]+ ms and kept \(object cache\)), linked in [\d.]+ ms",
        text,
    )
    kernel.ok("%config JITKernel.status_line=False")
    try:
        assert kernel.ok(SQ) == ""
    finally:
        kernel.ok("%config JITKernel.status_line=True")


def test_cells(kernel: Kernel) -> None:
    number = number_of(kernel, SQ)
    text = kernel.ok("%cells")
    assert re.search(rf"^ *{number}  live +@sq ", text, re.M)
    assert "1 cell" in text
    assert kernel.ok("%cells") == text  # cells of magics only are not numbered


@pytest.mark.parametrize("name", ["symbols", "whos"])
def test_symbols(kernel: Kernel, name: str) -> None:
    kernel.ok(SQ)
    number = number_of(kernel, USES)
    text = kernel.ok(f"%{name}")
    (line,) = [ln for ln in text.splitlines() if ln.startswith("@sq ")]
    assert "i32 (i32)" in line and str(number) in line
    assert "@twice" not in kernel.ok(f"%{name} sq*")
    assert kernel.ok("%who").split() == ["stdout:", "@sq", "@twice"]


def test_memory_and_arena(kernel: Kernel) -> None:
    kernel.ok(SQ)
    memory = kernel.ok("%memory")
    for word in (
        "text",
        "rodata",
        "data",
        "kernel process",
        "executor",
        "compiler worker",
        "total",
    ):
        assert word in memory
    arena = kernel.ok("%arena")
    assert re.search(r"^text +\|[A-Za-z.]+\|", arena, re.M)
    assert "rodata" not in kernel.ok("%arena text")
    assert "one of text, rodata, data" in kernel.fails("%arena txt")


def test_evict_is_refused_naming_the_users(kernel: Kernel) -> None:
    kernel.ok(SQ)
    number = number_of(kernel, USES)
    assert f"cell {number} (@twice) uses @sq" in kernel.fails("%evict @sq")
    assert kernel.result("@twice(3)") == "i32 9"
    kernel.ok("%evict @sq --force")
    assert "UndefinedSymbol" in kernel.fails("@twice(3)")
    kernel.ok(SQ)
    assert kernel.result("@twice(3)") == "i32 9"
    kernel.ok("%evict @sq --cascade")
    assert "Nothing is defined" in kernel.ok("%who")
    assert "No symbol matches zz" in kernel.ok("%who zz")
    assert "No symbol matches zz" in kernel.ok("%symbols zz")


def test_one_run_and_redo(kernel: Kernel) -> None:
    first = number_of(kernel, SQ)
    kernel.ok("@g = global i32 1")
    kernel.ok("@twice = global i32 2")
    assert f"undone: cell {first}: " in kernel.ok(f"%undo --cell {first}")
    assert "@sq" not in kernel.ok("%who")
    kernel.ok("%undo @g")
    listed = kernel.ok("%undo --list")
    assert "@twice" in listed and "@g" not in listed.partition("%redo")[0]
    kernel.ok("%redo 2")
    assert kernel.result("@sq(5)") == "i32 25"
    assert "nothing to redo" in kernel.fails("%redo")
    assert "only" in kernel.fails("%undo 1000")
    assert "one of them" in kernel.fails("%undo 2 --cell 3")
    assert "--cell N" in kernel.fails("%undo many")
    kernel.ok("define i32 @uses() {\n  %r = call i32 @sq(i32 2)\n  ret i32 %r\n}")
    assert "uses @sq" in kernel.fails("%undo @sq")
    assert kernel.ok("%undo @sq --cascade").count("undone: ") == 2


def test_gc(kernel: Kernel) -> None:
    kernel.ok(SQ)
    assert "No cell is garbage" in kernel.ok("%gc")
    assert "would be freed" in kernel.ok("%gc --dry-run")
    assert "can no longer be undone" in kernel.ok("%gc --undo")
    assert "nothing to undo" in kernel.fails("%undo")
    assert kernel.result("@sq(5)") == "i32 25"


def test_time(kernel: Kernel) -> None:
    kernel.ok(SQ)
    text = kernel.ok("%time @sq(7)")
    assert "i32 49" in text and "Wall time: " in text
    reply, outputs = kernel.run("%%time\n@sq(8)")
    assert any(o["output_type"] == "execute_result" for o in outputs)
    assert reply["status"] == "ok"


def test_timeit_runs_natively(kernel: Kernel) -> None:
    kernel.ok(SQ)
    text = kernel.ok("%timeit -r 3 @sq(7)")
    found = re.search(r"([\d.]+) ns ± .* a call \(median .*, best .* of 3 runs\)", text)
    assert found, text
    assert float(found[1]) < 1000  # nanoseconds: no round trip is in it
    assert kernel.ok("%timeit -q -n 10 -r 1 @sq(7)") == ""
    assert "a call" in kernel.ok("%%timeit -n 10 -r 2\n; the call\n@sq(7)")


# Only an optimiser keeps this off the stack.
SLOT = """\
define i32 @sq(i32 %x) {
  %s = alloca i32
  store i32 %x, ptr %s
  %y = load i32, ptr %s
  ret i32 %y
}"""


def test_llvm_options(kernel: Kernel) -> None:
    kernel.ok("%%llvm -O0\n" + SLOT)
    assert "rsp" in kernel.ok("%asm @sq")
    kernel.ok("%%llvm -O3\n" + SLOT)
    assert "rsp" not in kernel.ok("%asm @sq")
    assert "line 3" in kernel.fails("%%llvm -O1\ndefine void @f() {\n  rett void\n}")


def test_a_changed_signature_is_refused_until_retyped(kernel: Kernel) -> None:
    kernel.ok(SQ)
    kernel.ok(USES)
    other = "define i64 @sq(i64 %x) {\n  ret i64 %x\n}"
    assert "--retype" in kernel.fails(other)
    kernel.ok("%%llvm --retype\n" + other)
    assert kernel.result("@sq(5)") == "i64 5"
    told = kernel.fails("@twice(5)")  # the cell that is to be run again, not the one that called
    assert re.search(r"@sq is no longer i32 \(i32\).*run cell \d+ again", told)


def test_run_and_writefile(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "my file.ll"
    assert "wrote" in kernel.ok(f"%%writefile '{path}'\n{SQ}\n@sq(6)")
    assert path.read_text() == f"{SQ}\n@sq(6)\n"
    assert "i32 36" in kernel.ok(f"%run '{path}'")
    assert kernel.result("@sq(5)") == "i32 25"
    assert "appended" in kernel.ok(f"%%writefile -a '{path}'\n; more")
    assert "overwrote" in kernel.ok(f"%%writefile '{path}'\n; less")
    assert "No such file" in kernel.fails("%run nothing.ll")
    assert "%lib libm.so.6" in kernel.fails("%run libm.so.6")


def test_libraries(kernel: Kernel) -> None:
    assert "is loaded" in kernel.ok("%lib libm.so.6")
    assert "%lib here" in kernel.ok("%load libm.so.6")
    assert "cannot be loaded" in kernel.fails("%lib libno_such_thing.so")
    assert "libm.so.6" in kernel.fails("%lib m")


def test_names_that_are_typed_as_magics(kernel: Kernel) -> None:
    kernel.ok("@tally = i64 5")
    assert "`@tally` shows it" in kernel.fails("%tally")
    assert "what is 'tally' for" in kernel.fails("%%timeit tally\n@abs(1)")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("Compiler.opt_level=two", "a whole number from 0 to 3, not 'two'"),
        ("Compiler.opt_level=9", "a whole number from 0 to 3, not '9'"),
        ("Executor.cell_timeout=-1", "a number, at least 0, not '-1'"),
        ("JITKernel.asm_syntax=gas", "one of intel, att, not 'gas'"),
        ("JITKernel.status_line=7", "True or False, not '7'"),
        ("Session.budget=lots", "Session.budget: 'lots' is no size"),
    ],
)
def test_what_a_setting_takes(kernel: Kernel, setting: str, words: str) -> None:
    assert words in kernel.fails(f"%config {setting}")


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc makes the object")
def test_link(kernel: Kernel, tmp_path: Path) -> None:
    source = tmp_path / "half.c"
    source.write_text("int half(int x) { return x / 2; }\n")
    subprocess.run(["gcc", "-O1", "-c", source.name], cwd=tmp_path, check=True, timeout=60)
    assert "it defines @half" in kernel.ok(f"%link {tmp_path}/half.o")
    assert kernel.ok("declare i32 @half(i32)\n@half(10)").endswith("i32 5")
    assert "no such file" in kernel.fails("%link nothing.o").lower()


def test_config(kernel: Kernel) -> None:
    assert "Compiler.opt_level" in kernel.ok("%config")
    assert "Arena.capacity" not in kernel.ok("%config Compiler")
    kernel.ok("%config Compiler.opt_level=0")
    kernel.ok(SLOT)
    assert "rsp" in kernel.ok("%asm @sq")
    kernel.ok("%config Compiler.opt_level = 2")
    assert "holds from the kernel's start" in kernel.fails("%config Arena.capacity=64M")
    assert "did you mean Compiler.opt_level?" in kernel.fails("%config Compiler.optlevel=3")
    assert "Compiler.opt_level" in kernel.fails("%config Compiler.opt_level=9")
    kernel.ok("%config Compiler.memory_limit=600M")
    assert str(600 << 20) in kernel.ok("%config Compiler.memory_limit")


def test_folders_and_variables(kernel: Kernel, tmp_path: Path) -> None:
    before = kernel.ok("%pwd").removeprefix("stdout: ").strip()
    folder = tmp_path / "a folder"
    folder.mkdir()
    try:
        assert str(folder) in kernel.ok(f"%cd '{folder}'")
        assert str(folder) in kernel.ok("!pwd")
        kernel.ok(
            "declare ptr @getcwd(ptr, i64)\n@here = global [512 x i8] zeroinitializer\n"
            "%p = call ptr @getcwd(ptr @here, i64 512)"
        )
        assert str(folder) in kernel.ok("@puts(@here)")
        assert "No such file" in kernel.fails("%cd nowhere")
    finally:
        kernel.ok(f"%cd '{before}'")
    kernel.ok("%env JK_TEST=some words")
    assert "some words" in kernel.ok("%env JK_TEST")
    assert "some words" in kernel.ok("!echo $JK_TEST")
    assert "some words" in kernel.ok('@puts(@getenv("JK_TEST"))')
    assert "is not set" in kernel.fails("%env NO_SUCH_VARIABLE")
    for name in ("PYTHONMALLOC", "MALLOC_MMAP_MAX_"):  # the kernelspec's, for the kernel alone
        assert "is not set" in kernel.fails(f"%env {name}")
    assert "JK_TEST" not in os.environ


def test_history(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok("@abs(-123)")
    assert "@abs(-123)" in kernel.ok("%history")
    assert "@abs(-123)" in kernel.ok("%history -g abs(-123")
    path = tmp_path / "history.ll"
    kernel.ok(f"%history -f {path}")
    assert "@abs(-123)" in path.read_text()
    assert "exists" in kernel.fails(f"%history -f {path}")


def test_help(kernel: Kernel) -> None:
    assert "%evict" in kernel.ok("%help")
    assert "--cascade" in kernel.ok("%help evict")
    assert "closes a loop" in kernel.ok("%help back edge")
    assert "no help for zzz" in kernel.fails("%help zzz")
    assert "%%writefile" in kernel.ok("%lsmagic")
    page = kernel.page("%quickref")
    assert "%timeit" in page and max(map(len, page.splitlines())) <= 100
    for source in ("%evict?", "?%evict", "%evict??", "%evict --help"):
        assert "usage: %evict" in kernel.page(source)
    assert "usage: %%writefile" in kernel.page("%%writefile?")


@pytest.mark.parametrize("source", ["@sq?", "?@sq", "@sq??"])
def test_inspect_statements(kernel: Kernel, source: str) -> None:
    kernel.ok(SQ)
    page = kernel.page(source)
    assert "function i32 (i32)" in page and "6 bytes" in page
    assert ("imul" in page) == ("??" in source)


def test_a_value_is_no_magic_and_an_unknown_cell_magic_names_those_there_are(
    kernel: Kernel,
) -> None:
    kernel.ok("%total = add i32 40, 2")
    assert "%total was a value of an instruction block" in kernel.fails("%total")
    assert "`@total = _` keeps it" in kernel.fails("%total = add i32 40, 2\n%total")
    for name in ("cpp", "fortran"):
        words = kernel.fails(f"%%{name}\nint x;")
        assert "there are %%" in words and "%%llvm" in words and "%%kaleidoscope" in words


def test_unknown_names_are_refused(kernel: Kernel) -> None:
    assert "nothing is called @zzz" in kernel.fails("@zzz?")
    assert "did you mean %evict?" in kernel.fails("%evcit 3")
    assert "has no option --sorce; did you mean --source?" in kernel.fails("%asm sq --sorce")
    assert "%lib" in kernel.fails("%pip install x")
    assert "did you mean %%writefile?" in kernel.fails("%%writefil x\n")


def test_shell_commands(kernel: Kernel) -> None:
    text = kernel.ok("!echo out; echo err >&2; exit 3")
    assert "stdout: out" in text and "stderr: err" in text and "exit status 3" in text
    assert "after" in kernel.ok("!echo before\n!echo after")


def test_magics_after_code_run_in_order(kernel: Kernel) -> None:
    text = kernel.ok(SQ + "\n@sq(3)\n!echo between\n@sq(4)")
    assert text.index("between") < text.index("i32 16")


def test_a_cell_says_how_it_is_optimised(kernel: Kernel) -> None:
    alloca = "  %a = alloca i32\n  store i32 %x, ptr %a\n  %v = load i32, ptr %a\n"
    source = f"define i32 @f(i32 %x) {{\n{alloca}  ret i32 %v\n}}"
    kernel.ok(f"%opt dce\n{source}")
    assert "alloca" in kernel.ok("%ir @f --opt")
    kernel.ok(source)  # that was for one cell
    assert "alloca" not in kernel.ok("%ir @f --opt")
    try:
        assert "from now on" in kernel.ok('%opt "dce,adce"')
        assert "dce,adce" in kernel.ok("%opt")
        kernel.ok(source)
        assert "alloca" in kernel.ok("%ir @f --opt")
        assert "dce,adce" in kernel.ok("%config Compiler.passes")
        kernel.ok(f"%%llvm --passes sroa\n{source}")
        assert re.search(r"^ +1  sroa ", kernel.ok("%passes @f"), re.M)
    finally:
        kernel.ok("%opt -O2")
    assert "-O2" in kernel.ok("%opt")
    kernel.ok(source)
    assert "alloca" not in kernel.ok("%ir @f --opt")
    error = kernel.fails("%opt sroa,instcombin")
    assert "there is no pass 'instcombin'; did you mean instcombine?" in error
    assert "loop-vectorize" in error
    assert "there are -O0" in kernel.fails("%opt -O9")


def test_passes_and_machine_ir(kernel: Kernel) -> None:
    kernel.ok(SQ)
    assert "step changed it, of" in kernel.ok("%passes @sq")
    assert "1. globalopt on module" in kernel.ok("%passes @sq --step 1 --all")
    assert "No pass ran over a loop" in kernel.ok("%passes @sq --loop")
    assert "no loop" in kernel.ok("%passes @sq --loop %x").replace("No pass ran over a", "no")
    assert "remark" in kernel.ok("%remarks @sq --all")
    assert "after step 1" in kernel.ok("%passes @sq --stop-after 1")
    assert "IMUL32rr" in kernel.ok("%mir @sq --isel")
    assert "one of --isel, --final at a time" in kernel.fails("%mir @sq --isel --final")
    assert "Live ranges of @sq, cell" in kernel.ok("%mir @sq --live")
    assert "Live ranges" in kernel.ok("%mir @sq --live --around 1")
    assert "one of --isel, --live at a time" in kernel.fails("%mir @sq --isel --live")
    assert "a part of what --live shows" in kernel.fails("%mir @sq --around 1")
    assert "is one of greedy, fast" in kernel.fails("%%llvm --regalloc best\n" + SQ)
    kernel.ok("%%llvm --regalloc fast\n" + SQ)
    assert "regallocfast" in kernel.ok("%mir @sq --regalloc")
    assert "+" in kernel.ok("%ir @sq --diff")


def test_explain_and_timeline(kernel: Kernel) -> None:
    kernel.ok(SQ)
    text = kernel.ok("%explain @sq")
    for head in ("Source, IR and machine code", "Machine IR", "Assembly", "Timeline"):
        assert f"== {head} ==" in text
    assert re.search(r"^total +[\d.]+ [um]?s", kernel.ok("%timeline"), re.M)
    assert "nothing of the session is called @nothing" in kernel.fails("%explain @nothing")


@pytest.mark.parametrize(
    ("magic", "values", "doing", "last"),
    [
        ("%explain @long", 1500, "explaining", "== Timeline =="),
        pytest.param(
            "%passes @long",
            2500,
            "compiling it again, watched",
            "changed it, of",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_long_look_tells_of_its_progress_in_place(
    kernel: Kernel, magic: str, values: int, doing: str, last: str
) -> None:
    adds = "".join(f"  %v{k + 1} = mul i64 %v{k}, %v{k // 2}\n" for k in range(values))
    kernel.ok(f"define i64 @long(i64 %v0) {{\n{adds}  ret i64 %v{values}\n}}")
    content = {"code": magic, "silent": False}
    message = kernel.client.session.msg("execute_request", content, metadata={"cellId": "a1"})
    kernel.client.shell_channel.send(message)
    messages = kernel.iopub_of(message["header"]["msg_id"], timeout=120)
    kernel.reply_to(message["header"]["msg_id"], timeout=120)
    shown = [m for m in messages if "display_data" in m["msg_type"]]
    progress = [m for m in shown if m["content"]["transient"].get("display_id")]
    seconds = [
        float(found[1])
        for m in progress
        if (found := re.match(rf"{doing}, ([\d.]+) s", m["content"]["data"]["text/plain"]))
    ]
    assert seconds, "it takes more than half a second"
    assert len({m["content"]["transient"]["display_id"] for m in progress}) == 1
    assert all(b - a >= 0.4 for a, b in pairwise(seconds))
    assert last in shown[-1]["content"]["data"]["text/plain"]
    assert re.match(r"\w+ in [\d.]+ s$", progress[-1]["content"]["data"]["text/plain"])
    # A client that cannot write over it is not told, and has the view alone.
    kernel.ok(SQ)
    reply, outputs = kernel.run(magic.replace("long", "sq"))
    assert reply["status"] == "ok" and len(outputs) == 1


def test_a_pass_in_python(kernel: Kernel) -> None:
    kernel.ok("define i32 @f(i32 %x) {\n  %y = mul i32 %x, 8\n  ret i32 %y\n}")
    body = "def to_shift(text):\n    return text.replace('mul i32 %x, 8', 'shl i32 %x, 3')"
    text = kernel.ok(f'%%pass to-shift --on @f --time "@f(3)"\n{body}')
    assert "+   %y = shl i32 %x, 3" in text and "Verdict: verified" in text
    assert re.search(r"^value of @f\(3\) +i32 24 +i32 24$", text, re.M)
    assert "mul" in kernel.ok("%ir @f")
    kernel.ok(f"%%pass to-shift --keep\n{body}")
    assert "shl" in kernel.ok("%ir @f")
    assert kernel.result("@f(5)") == "i32 40"
    error = kernel.fails("%%pass bad\ndef bad(text):\n    return text.replace('i32', 'i33', 1)")
    assert "LLVM refuses" in error and "is as it was" in error
    assert "ZeroDivisionError" in kernel.fails("%%pass zero\ndef zero(m):\n    1 / 0")
    assert "line 3, in zero" in kernel.fails("%%pass zero\ndef zero(m):\n    1 / 0")


def test_an_analysis_in_python(kernel: Kernel) -> None:
    kernel.ok("define i32 @f(i32 %x) {\n  %y = mul i32 %x, 8\n  ret i32 %y\n}")
    body = "def uses(function):\n  for i in function.instructions:\n    yield {'opcode': i.opcode, 'uses': len(i.uses)}"
    text = kernel.ok(f"%%analysis uses --on @f\n{body}")
    assert re.search(r"^opcode +uses\nmul +1\nret +0$", text, re.M)
    assert "line 3, in bad" in kernel.fails("%%analysis bad\ndef bad(module):\n    module.x")
    assert kernel.result("@f(5)") == "i32 40"


def test_examples_of_passes_and_analyses(kernel: Kernel) -> None:
    kernel.ok("define i32 @f(i32 %x) {\n  %y = mul i32 %x, 8\n  ret i32 %y\n}")
    text = kernel.ok("%%pass --example strength --on @f --keep")
    assert "def strength(f: Function)" in text and "+   %y.0 = shl i32 %x, 3" in text
    assert kernel.result("@f(5)") == "i32 40"
    text = kernel.ok("%%analysis --example linear_scan --on @f")
    assert re.search(r"^%x +0 +0 +r0$", text, re.M)
    assert "leave the cell empty" in kernel.fails("%%pass --example fold\ndef x(m): pass")
    assert "needs the NAME" in kernel.fails("%%analysis\ndef x(m): pass")
    assert "fold" in kernel.fails("%%pass --example nothing")


def test_what_the_page_on_passes_says(kernel: Kernel) -> None:
    """Its cells run, and show the lines that stand below them."""
    page = Path(__file__).parents[2] / "docs/passes.md"
    fences = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert [kind for kind, _ in fences].count("python") == 4
    shown = ""
    for kind, text in fences:
        if kind == "text":
            seen, wanted = (
                [re.sub(r"cell \d+", "cell 1", " ".join(line.split())) for line in each.split("\n")]
                for each in (shown, text.rstrip())
            )
            for one in wanted:
                assert any(one in line for line in seen), (one, shown)
        elif kind == "py":
            exec(text, {})
        else:
            reply, outputs = kernel.run(text)
            shown = plain("\n".join(outputs_text(outputs))) + "\n" + reply.get("evalue", "")
            assert (reply["status"] == "error") == ("early" in text), shown


def test_opt_keeps_the_cpu_of_pasted_code(kernel):
    source = (
        "define i32 @pasted(i32 %x) #0 {\n  ret i32 %x\n}\n"
        'attributes #0 = { "target-cpu"="x86-64" }'
    )
    said = "target-cpu x86-64 is what compilers write by default"
    assert said in str(kernel.ok(source))
    assert said not in str(kernel.ok(f"%opt --keep-cpu\n{source}"))
    assert said not in str(kernel.ok(f"%opt -O1 --keep-cpu\n{source}"))
