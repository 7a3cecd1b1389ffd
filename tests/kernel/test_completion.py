"""TAB and shift-TAB: what is offered, where, and what is said about it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel.compiler.cpus import CPUS
from jitkernel.compiler.passes import DESCRIPTIONS, SINGLE
from jitkernel.kernel.magics import MAGICS
from jitkernel.kernel.magics.registry import IN_LANGUAGE, Magic
from jitkernel.views.foreign import TARGETS
from tests.kernel.conftest import Kernel
from tests.seeds import few, sampled


@pytest.fixture(scope="module", autouse=True)
def defined(kernel: Kernel) -> None:
    kernel.ok(
        "%pt = type { i32, i32 }\n@numbers = global [3 x i32] [i32 1, i32 2, i32 3]\n"
        '@"a b" = global i8 7\n'
        "define i32 @number_of(ptr %p) {\n  %v = load i32, ptr %p\n  ret i32 %v\n}\n"
        "define i32 @user(%pt %v) {\n  %n = call i32 @number_of(ptr @numbers)\n  br label %positive\n"
        "positive:\n  ret i32 %n\n}"
    )


def complete(kernel: Kernel, code: str, position: int | None = None) -> dict:
    position = len(code) if position is None else position
    identity = kernel.client.complete(code, position)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == "ok"
    return reply


def inserted(reply: dict, code: str) -> set[str]:
    """The cell after each completion."""
    start, stop = reply["cursor_start"], reply["cursor_end"]
    return {code[:start] + match + code[stop:] for match in reply["matches"]}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("@number", {"@numbers", "@number_of"}),
        ("%x = call i32 @number_", {"%x = call i32 @number_of"}),
        ("@number_of(@num", {"@number_of(@numbers", "@number_of(@number_of"}),
        ('@"a', {'@"a b"'}),
        ("%c = icmp s", {f"%c = icmp s{word}" for word in ("gt", "ge", "lt", "le")}),
        ("%c = fcmp un", {"%c = fcmp une", "%c = fcmp uno"}),
        ("%evict @number_", {"%evict @number_of"}),
        ("%evict number_", {"%evict number_of"}),
        ("%evict --ca", {"%evict --cascade"}),
        ("%timeit @number_", {"%timeit @number_of"}),
        ("%timeit @number_of(@number_", {"%timeit @number_of(@number_of"}),
        ("%config Compiler.opt", {"%config Compiler.opt_level"}),
        ("%help evi", {"%help evict"}),
        ("%asm --syn", {"%asm --syntax"}),
        ("%cfg @user --block %p", {"%cfg @user --block %positive"}),
        ("%cfg @user --around=po", {"%cfg @user --around=positive"}),
        ("%cfg @number_of --block p", set()),
        ("%arena ro", {"%arena rodata"}),
        ("@sqr", {"@sqrt", "@sqrtf"}),
        ("  getelem", {"  getelementptr"}),
        ("define i32 @f(i32 %alpha) {\n  %alphabet = add i32 %al", None),
    ],
)
def test_matches(kernel: Kernel, code: str, expected: set | None) -> None:
    found = inserted(complete(kernel, code), code)
    if expected is None:
        assert {code + "pha"} <= found
    else:
        assert found == expected


#: Arguments whose values nobody can know: numbers, texts, new names.
FREE = {
    ("redo", "count"), ("history", "-n"), ("history", "-g --search"), ("arena", "part"),
    ("stack", "--after"), ("compare", "--time"), ("pass", "name"), ("pass", "--timeout"),
    ("analysis", "name"), ("analysis", "--timeout"),
    ("predict", "name"), ("predict", "guess"), ("answer", "name"), ("answer", "value"),
    ("progress", "--reset"),
    ("timeit", "-n"), ("timeit", "-r"), ("exercise", "exercise"), ("watch", "--every"),
    ("cfg", "--depth"), ("mir", "--around"), ("callgraph", "--depth"),
    ("callgraph", "--around"), ("lib", "-l"), ("plot", "--x"), ("plot", "--count"),
    ("plot", "--first"), ("table", "--count"), ("table", "--first"), ("draw", "--most"),
    ("layout", "what"),
    ("reproduce", "--timeout"), ("passes", "--loop"), ("break", "--hits"), ("break", "--log"),
}  # fmt: skip
#: What stands for each kind of value once the cells above have run.
SAMPLES = {
    "block": "%positive", "breakpoint": "all", "cell": "1", "code": "@number_of", "cpu": "znver4", "expression": "@numbers", "file": "", "function": "@number_of",
    "global": "@numbers", "machine": "riscv64", "magic": "evict", "pass": "sroa",
    "passes": "sroa", "pipeline": "-O2", "setting": "Compiler.opt_level", "size": "none",
    "symbol": "@numbers", "target": "@number_of", "type": "@numbers", "variable": "PATH", "exercise": "clz", "language": "c",
}  # fmt: skip


@pytest.fixture(scope="module")
def exercise(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> None:
    kernel.ok(f"%cd {tmp_path_factory.mktemp('course')}")
    kernel.ok("%%exercise clz\ndefine i32 @clz(i32 %x) {\n  ret i32 %x\n}")


@pytest.mark.parametrize("magic", list(MAGICS), ids=lambda magic: magic.name)
@pytest.mark.parametrize("below", few(["", "\n@number_of(null)", "\ndef f(x) x;"], 1))
def test_each_magic_offers_its_flags_and_its_values(
    kernel: Kernel, exercise: None, magic: Magic, below: str
) -> None:
    head = ("%%" if magic.form == "cell" else "%") + magic.name
    if magic.form == "cell" or not below:
        call, line = head, ""
    else:  # line magics also below code, where the cell's language is another
        call, line = "%%kaleidoscope\n" + head if "def" in below else head, below

    def matches(words: str) -> list[str]:
        code = f"{call} {words}"
        return complete(kernel, code + line, len(code))["matches"]

    assert set(magic.options) <= set(matches("-"))
    rest = len(magic.positional) == 1
    for argument in magic.arguments:
        lead = f"{argument.names[-1]} " if argument.is_option else ""
        if argument.take == "flag" or not (argument.is_option or rest):
            continue
        found = matches(lead)
        for choice in argument.choices:
            assert choice in found
            if argument.is_option:
                name = argument.names[-1]
                joined = name + choice if len(name) == 2 else f"{name}={choice}"
                assert joined in matches(joined[:-1])
        if "def" in below and argument.completes in IN_LANGUAGE and not argument.is_option:
            assert "sin" in matches(f"{lead}si")
        elif argument.completes:
            assert SAMPLES[argument.completes] in found or argument.completes == "file", found[:9]
        elif not argument.choices:
            assert (magic.name, argument.words) in FREE


@pytest.mark.parametrize(
    ("code", "some", "none"),
    [
        ("%opt sroa,inst", {"sroa,instcombine", "sroa,instsimplify"}, {"instcombine"}),
        ("%opt -O", {"-O0", "-O3"}, {"sroa"}),
        ("%%llvm --passes mem2reg,gv", {"mem2reg,gvn"}, set()),
        ("%passes @user --stop-after sim", {"simplifycfg", "simple-loop-unswitch"}, {"sroa"}),
        ("%asm @user --target riscv64 --cpu sifive-", {"sifive-u74"}, {"znver4", "native"}),
        ("%asm @user --target=aarch64 --cpu neoverse", {"neoverse-n1"}, {"znver4"}),
        ("%asm @user --target armv7-none-eabi --cpu cortex-m", {"cortex-m4"}, {"znver4"}),
        ("%%llvm --cpu ", {"native", "haswell", "x86-64-v3"}, {"i386", "cortex-a72"}),
        ("%asm 1 --syn", {"--syntax"}, {"--target"}),
        ("%asm --syntax att --", {"--target"}, {"--syntax"}),
        ("%compare @user -O0 -O", {"-O2"}, set()),
        ("%evict ", {"@user", "@numbers", "1"}, {"@printf"}),
        ("%evict 1,", {"1,1"}, {"@user"}),
        ("%evict @user ", {"@numbers", "1"}, set()),
        ("%watch @", {"@numbers"}, {"@user"}),
        ("%undo --cell ", {"1"}, {"@user"}),
        ("%arena text ", set(), {"text", "rodata"}),
        ("%context ", {"throwaway", "shared", "kept"}, set()),
        ("%config Session.context=", {"Session.context=kept"}, {"Session.context"}),
        ("%config JITKernel.deterministic=T", {"JITKernel.deterministic=True"}, set()),
        ("%config Compiler.cpu=znver", {"Compiler.cpu=znver4"}, set()),
        ('%ir @"a', {'@"a b"'}, {"@user"}),
        ("%time @user(@num", {"@user(@numbers"}, set()),
        ("%%kaleidoscope --", {"--passes", "--cpu"}, set()),
        ("%%kaleidoscope -O", {"-O0", "-O3"}, set()),
    ],
)
def test_values_of_arguments(kernel: Kernel, code: str, some: set, none: set) -> None:
    found = set(complete(kernel, code)["matches"])
    assert some <= found
    assert not none & found


def test_a_language_of_ones_own_is_offered_with_its_options(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "tiny_words.py"
    file.write_text(
        "from jitkernel.languages import Language, plan\n"
        'LANGUAGE = Language("tinywords", lambda source, known: plan("", source))\n'
    )
    kernel.ok(f"%language {file}")
    assert "%%tinywords" in complete(kernel, "%%tiny")["matches"]
    assert "--passes" in complete(kernel, "%%tinywords --pa")["matches"]
    assert "tinywords, in the same program" in inspect(kernel, "%%tinywords")["data"]["text/plain"]


@pytest.mark.parametrize("machine", sampled(TARGETS, 4))
def test_the_processors_are_those_that_llvm_knows(machine: str) -> None:
    script = (
        "import sys, llvmlite.binding as b\nb.initialize_all_targets()\n"
        "b.initialize_all_asmprinters()\n"
        "b.Target.from_triple(sys.argv[1]).create_target_machine(cpu='help')"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, TARGETS[machine]], capture_output=True, text=True
    ).stderr  # its end is not asked for: some machines refuse the word after they have answered
    known = re.findall(r"^  (\S+) +- Select", told, re.M)
    assert set(CPUS[machine]) <= set(known)
    assert len(CPUS[machine]) > len(known) / 3


def test_every_pass_is_described() -> None:
    assert set(SINGLE) <= set(DESCRIPTIONS)
    assert all(len(words) <= 80 and words[0].islower() for words in DESCRIPTIONS.values())


def test_types_come_with_the_matches(kernel: Kernel) -> None:
    reply = complete(kernel, "@number_")
    (entry,) = reply["metadata"]["_jupyter_types_experimental"]
    assert entry["text"] == "@number_of"
    assert entry["type"] == "function"
    assert entry["signature"] == "i32 (ptr)"
    assert (entry["start"], entry["end"]) == (0, 8)


def test_names_of_this_cell(kernel: Kernel) -> None:
    code = "define void @fresh_one() {\n  ret void\n}\n@fre"
    assert "@fresh_one" in complete(kernel, code)["matches"]


def test_named_types(kernel: Kernel) -> None:
    assert "%pt" in complete(kernel, "%x = alloca %p")["matches"]
    kernel.ok('%"a type" = type { i32 }')
    assert '%"a type"' in complete(kernel, '%x = alloca %"a')["matches"]


def test_line_and_cell_magics(kernel: Kernel) -> None:
    assert {"%time", "%timeit", "%%time", "%%timeit"} <= set(complete(kernel, "%tim")["matches"])
    assert set(complete(kernel, "%%tim")["matches"]) == {"%%time", "%%timeit"}
    # A cell magic is of use on the first line only.
    assert "%%time" not in complete(kernel, "@number_of(null)\n%tim")["matches"]


def test_positions_are_in_characters(kernel: Kernel) -> None:
    code = "; ünïcödé 𝄞\n@number_"
    reply = complete(kernel, code)
    assert reply["cursor_start"] == code.index("@")
    assert inserted(reply, code) == {code + "of"}


def test_files(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "program.ll").touch()
    assert complete(kernel, f"%run {tmp_path}/pro")["matches"] == [f"{tmp_path}/program.ll"]
    assert complete(kernel, f"!cat {tmp_path}/pro")["matches"] == [f"{tmp_path}/program.ll"]


@pytest.mark.parametrize(
    ("code", "offered"),
    [
        ("", None),
        ("@", "@number_of"),
        ("%", "%asm"),
        ("!cat /proc/self/stat", "/proc/self/status"),
        ("(", None),
        ('"', None),
        ("@\x00", None),
        ("%" * 2000, None),
        ("\ud7ff\U0001f600", None),
    ],
)
def test_odd_places(kernel: Kernel, code: str, offered: str | None) -> None:
    """That nothing failed inside is asserted after each test: `no_error_inside`."""
    for position in {0, len(code) // 2, len(code), len(code) + 5}:
        reply = complete(kernel, code, position)
        assert 0 <= reply["cursor_start"] <= reply["cursor_end"] <= len(code), position
    matches = complete(kernel, code)["matches"]
    assert offered in matches if offered else matches == [], matches


def inspect(kernel: Kernel, code: str, position: int | None = None, level: int = 0) -> dict:
    position = len(code) if position is None else position
    identity = kernel.client.inspect(code, position, detail_level=level)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == "ok"
    return reply


@pytest.mark.parametrize("magic", list(MAGICS), ids=lambda magic: magic.name)
def test_each_magic_and_each_of_its_flags_is_explained(kernel: Kernel, magic: Magic) -> None:
    head = ("%%" if magic.form == "cell" else "%") + magic.name
    for code in (head, head + " "):
        text = inspect(kernel, code)["data"]["text/plain"]
        assert f"usage: {head}" in text or magic.form == "both"
        assert " ".join(magic.help.split())[:60] in " ".join(text.split())
    for option in magic.arguments:
        for name in option.names if option.is_option else ():
            assert option.help in inspect(kernel, f"{head} {name}")["data"]["text/plain"]


@pytest.mark.parametrize(
    ("code", "position", "words"),
    [
        ("%passes @user --only sroa", None, ["sroa: a pass of LLVM; it splits variables"]),
        ("%opt sroa,gvn", 7, ["sroa: a pass"]),
        ("%opt sroa,gvn", 12, ["gvn: a pass"]),
        ("%%kaleidoscope -O2\ndef f(x) x;", 16, ["%kaleidoscope -O: optimisation level"]),
        ("%%kaleidoscope\n%asm --cpu", None, ["its CPU"]),
        ("%asm @number_of", None, ["function i32 (ptr)"]),
        ("%asm number_of", None, ["function i32 (ptr)"]),
        ("%time @number_of(", None, ["function i32 (ptr)"]),
        ("@number_of(null)", 3, ["function i32 (ptr)", "cell", "bytes", "used by", "load i32"]),
        ("@number_of(nul", None, ["function i32 (ptr)"]),
        ("@numbers", 4, ["[3 x i32]", "[i32 1, i32 2, i32 3]"]),
        ('@"a b"', 2, ["i8 7"]),
        ("%evict 3", 2, ["usage: %evict"]),
        ("  %x = getelementptr i8, ptr null, i64 1", 10, ["getelementptr", "address"]),
        ("@puts(", 2, ["i32 @puts(ptr)"]),
        ("%v = alloca %pt", 14, ["{ i32, i32 }"]),
    ],
)
def test_inspection(kernel: Kernel, code: str, position: int | None, words: list[str]) -> None:
    reply = inspect(kernel, code, position)
    assert reply["found"]
    text = reply["data"]["text/plain"]
    for word in words:
        assert word in text
    assert reply["data"]["text/html"]


def test_a_definition_is_shown_in_its_own_language(kernel: Kernel) -> None:
    text = "# The later one.\ndef binary| 5 (a b)\n  b\ndef f(x)\n  x |\n  # the end\n  x\nf(1)"
    kernel.ok(f"%%kaleidoscope\n{text}")
    for asked, begins, shown in (
        ("f(3)", 1, "def f(x)\n  x |\n  # the end\n  x"),
        ("f(3)", 4, "def f(x)\n  x |\n  # the end\n  x"),
        ("1 | 2", 3, "def binary| 5 (a b)\n  b"),
    ):
        code = f"%%kaleidoscope\n{asked}"
        found = inspect(kernel, code, code.index(asked) + begins)["data"]["text/plain"]
        assert found.endswith(f"\n\nsource\n{shown}"), found
    assert "cos: double (double)" in inspect(kernel, "%%kaleidoscope\ncos")["data"]["text/plain"]
    kernel.ok("%%c\n// Twice.\nint twice(int n) {\n  return 2 * n;\n}")
    found = inspect(kernel, "%asm twice")["data"]["text/plain"]
    assert "int twice(int n) {\n  return 2 * n;\n}" in found and "define" not in found


def test_more_detail(kernel: Kernel) -> None:
    assert "mov" in inspect(kernel, "@number_of", level=1)["data"]["text/plain"]


@pytest.mark.parametrize("code", ["", "@nothing_here", "   ", "12", "@", "\x00"])
def test_nothing_known(kernel: Kernel, code: str) -> None:
    assert not inspect(kernel, code)["found"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("@f(1)", "complete"),
        ("define void @f() {", "incomplete"),
        ("sq(7)", "invalid"),
        ("%%time", "incomplete"),
        ("%%time\n@f()\n\n", "complete"),
        ("", "complete"),
    ],
)
def test_is_complete(kernel: Kernel, code: str, status: str) -> None:
    identity = kernel.client.is_complete(code)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == status
    assert ("indent" in reply) == (status == "incomplete")
