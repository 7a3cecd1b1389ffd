"""The type of an instruction's value, from its text; LLVM says which is right."""

import pytest

from jitkernel.ir.calls import call_declaration
from jitkernel.ir.instructions import Instruction
from jitkernel.ir.keywords import TERMINATORS

NAMED = {"pt": "{ i32, [2 x i64] }", "a b": "{ %pt, i1 }"}
GLOBALS = r"""
%pt = type { i32, [2 x i64] }
%"a b" = type { %pt, i1 }
@g = global i32 5
@"q q" = global %pt zeroinitializer
declare i32 @sq(i32)
declare void @nothing(i32)
declare i32 @printf(ptr, ...)
declare %pt @make()
declare { i32, float } @both(ptr)
declare <4 x float> @vec()
declare fastcc i8 @fast()
declare ptr @get()
declare i32 @__gxx_personality_v0(...)
"""
# What the instructions below take their operands from.
ARGUMENTS = (
    "i32 %i, i64 %l, float %f, double %d, i1 %c, ptr %p,"
    " <4 x i32> %vi, <4 x float> %vf, <4 x ptr> %vp,"
    ' %pt %s, { i32, { i8, [3 x half] } } %n, [4 x i16] %a, ptr addrspace(1) %p1, %"a b" %ab, i8 %b'
)
INSTRUCTIONS = r"""
%r = add i32 40, 2
%r = add nuw nsw i32 %i, 2
%r = sub i32 %i, ptrtoint (ptr @g to i32)
mul <4 x i32> %vi, splat (i32 3)
%r = udiv exact i64 %l, 8
%r = or disjoint i32 %i, 1
%r = shl i8 %b, 1
%r = fadd fast float %f, 1.0
%r = fmul nnan ninf nsz <4 x float> %vf, %vf
%r = frem double %d, 2.0
%r = fneg contract double %d
%r = icmp eq i32 %i, 5
%r = icmp samesign ult <4 x i32> %vi, zeroinitializer
%r = icmp ne ptr %p, null
%r = icmp eq <4 x ptr> %vp, zeroinitializer
%r = fcmp nnan olt float %f, 0.0
%r = fcmp uno <4 x float> %vf, %vf
%r = alloca i32
%r = alloca [4 x %pt], i64 %l, align 16
%r = alloca inalloca i32
%r = load i32, ptr @g
%r = load volatile %pt, ptr @"q q", align 8
%r = load atomic i32, ptr %p seq_cst, align 4
%r = load <4 x float>, ptr getelementptr inbounds (i8, ptr @g, i64 16)
%r = load %"a b", ptr %p ; a comment, with commas
%r = load ptr addrspace(1), ptr %p
store i32 5, ptr %p
store volatile <4 x i32> %vi, ptr %p, align 16
fence seq_cst
%r = cmpxchg weak volatile ptr %p, i32 1, i32 2 acq_rel monotonic
%r = cmpxchg ptr inttoptr (i64 5 to ptr), ptr null, ptr %p seq_cst seq_cst, align 8
%r = atomicrmw volatile add ptr %p, i64 1 seq_cst
%r = atomicrmw fadd ptr %p, double 1.0 syncscope("agent") monotonic, align 8
%r = atomicrmw xchg ptr %p, ptr null seq_cst
%r = getelementptr i32, ptr %p, i64 1
%r = getelementptr inbounds nuw %pt, ptr %p, i64 0, i32 1, i64 %l
%r = getelementptr i8, <4 x ptr> %vp, i64 4
%r = getelementptr i8, ptr %p, <4 x i32> %vi
%r = getelementptr { i32, [2 x i32] }, ptr @g, i64 0, i32 1
%r = getelementptr i8, ptr addrspace(1) %p1, i32 4
%r = trunc nuw i32 %i to i8
%r = zext nneg i32 %i to i64
%r = sext <4 x i32> %vi to <4 x i64>
%r = fptrunc double %d to half
%r = fpext float %f to x86_fp80
%r = fptosi double %d to i128
%r = uitofp nneg i32 %i to bfloat
%r = sitofp <4 x i32> %vi to <4 x double>
%r = ptrtoint ptr %p to i64
%r = ptrtoint <4 x ptr> %vp to <4 x i64>
%r = inttoptr i64 %l to ptr
%r = inttoptr i64 ptrtoint (ptr @g to i64) to ptr
%r = bitcast <4 x float> %vf to <2 x i64>
%r = addrspacecast ptr %p to ptr addrspace(1)
%r = select i1 %c, i32 1, i32 2
%r = select fast i1 %c, <4 x float> %vf, <4 x float> %vf
%r = select i1 %c, { i32, { i8, [3 x half] } } %n, { i32, { i8, [3 x half] } } zeroinitializer
%r = freeze %pt %s
%r = extractvalue %pt %s, 0
%r = extractvalue %pt %s, 1
%r = extractvalue %pt %s, 1, 1
%r = extractvalue %"a b" %ab, 0, 1, 0
%r = extractvalue { i32, { i8, [3 x half] } } %n, 1, 1, 2
%r = extractvalue [4 x i16] %a, 3
%r = extractvalue { i32, i8 } { i32 1, i8 2 }, 1
%r = insertvalue %pt %s, i32 1, 0
%r = insertvalue [4 x i16] poison, i16 7, 2
%r = extractelement <4 x float> %vf, i32 1
%r = extractelement <4 x ptr> %vp, i64 %l
%r = insertelement <4 x i32> %vi, i32 5, i32 0
%r = shufflevector <4 x float> %vf, <4 x float> poison, <2 x i32> <i32 3, i32 0>
%r = shufflevector <4 x i32> %vi, <4 x i32> %vi, <8 x i32> zeroinitializer
%r = va_arg ptr %p, i32
%r = va_arg ptr %p, double
%r = call i32 @sq(i32 7)
call i32 @sq(i32 7)
%r = tail call i32 @sq(i32 %i) #0
%r = call i32 (ptr, ...) @printf(ptr @g, i32 5)
call void @nothing(i32 1)
notail call void @nothing(i32 %i)
%r = call %pt @make()
%r = call { i32, float } @both(ptr %p)
%r = call fast <4 x float> @vec()
%r = call fastcc i8 @fast()
%r = call cc 10 i32 %p(i32 %i)
%r = call noundef signext i8 %p()
%r = call noalias nonnull align 16 dereferenceable(4) ptr @get()
%r = call range(i32 0, 10) i32 @sq(i32 range(i32 0, 5) 3)
%r = call i32 %p(ptr getelementptr (i8, ptr @g, i64 1), [2 x i32] [i32 1, i32 2])
%r = call i64 asm sideeffect "mov $0, 5", "=r,~{flags}"()
call void asm "nop ; } (", ""()
%r = call i32 @llvm.ctpop.i32(i32 7)
%r = call { i32, i1 } @llvm.sadd.with.overflow.i32(i32 1, i32 2)
%r = call <2 x double> @llvm.fabs.v2f64(<2 x double> <double 1.0, double 2.0>)
"""
CASES = INSTRUCTIONS.strip().split("\n")


@pytest.mark.parametrize("text", CASES)
def test_type_is_llvms(text, llvm):
    function = f"define void @f({ARGUMENTS}) {{\nentry:\n{text}\nret void\n}}\n"
    module = f"{GLOBALS}{function}attributes #0 = {{ nounwind }}\n"
    line, column, words = llvm.error(module)
    assert not words, (line, column, words)
    assert (
        str(Instruction.read(text).type(NAMED))
        == llvm.instruction_types(module)[0].partition(" = type ")[0]
    )


def test_instructions_that_need_a_place(llvm):
    """phi, landingpad, invoke and the terminators, in a function of their own."""
    body = [
        "br i1 %c, label %a, label %b",
        "br label %b",
        "%r = phi nnan <2 x float> [ zeroinitializer, %a ], [ <float 1.0, float 2.0>, %0 ]",
        "%t = invoke i64 @h(i32 1)\n to label %n unwind label %u",
        "switch i32 5, label %n2 [\n i32 0, label %n2\n ]",
        "ret i32 5",
        "%l = landingpad { ptr, i32 }\n cleanup\n catch ptr null",
        "resume { ptr, i32 } %l",
    ]
    text = f"""declare i64 @h(i32)
declare i32 @__gxx_personality_v0(...)
define i32 @f(i1 %c) personality ptr @__gxx_personality_v0 {{
{body[0]}
a:
{body[1]}
b:
{body[2]}
{body[3]}
n:
{body[4]}
n2:
{body[5]}
u:
{body[6]}
{body[7]}
}}
"""
    assert llvm.error(text)[2] == ""
    assert [str(Instruction.read(t).type()) for t in body] == llvm.instruction_types(text)
    assert [Instruction.read(t).opcode in TERMINATORS for t in body] == [
        True,
        True,
        False,
        True,
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "text",
    ["%x = nonsense i32 5", "entry:", "%x = add", "", "%x = load", "%x = add foo 1, 2", "@f()"],
)
def test_what_llvm_would_refuse_has_no_type(text):
    assert Instruction.read(text).type() is None


@pytest.mark.parametrize(
    ("text", "declaration"),
    [
        ("%x = call i32 @f(i32 7, ptr @g)", "declare i32 @f(i32, ptr)"),
        ("call void @f()", "declare void @f()"),
        (
            'tail call fastcc { i32, i8 } @f([2 x i8] c"ab", <2 x i1> %v)',
            "declare { i32, i8 } @f([2 x i8], <2 x i1>)",
        ),
        ("%x = call i32 (ptr, ...) @f(ptr %p, i32 1)", "declare i32 @f(ptr, ...)"),
        ("store i32 1, ptr @f", "declare void @f()"),
        ("%x = call i32 @f(", "declare void @f()"),
    ],
)
def test_declaration_for_a_call(text, declaration):
    assert call_declaration(text, "f") == declaration


def test_heads():
    assert Instruction.read("  %x = tail call i32 @f()").opcode == "call"
    assert Instruction.read('%"a b" = add i32 1, 2').result == '%"a b"'
    assert not Instruction.read("done:").opcode
    assert Instruction.read("store i32 1, ptr %p").result == ""
    assert str(Instruction.read("ret { i32, i32 } %x").returned) == "{ i32, i32 }"
    assert str(Instruction.read("ret void").returned) == "void"
    assert Instruction.read("br label %x").returned is None
