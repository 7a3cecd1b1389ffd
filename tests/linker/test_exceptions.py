"""C++ exceptions through linked code, with the unwinder of the process it runs in."""

from __future__ import annotations

import ctypes

import pytest
from native import lookup, mapped, unwinding
from toolchain import compile_ir

from jitkernel.linker import Linker

THROWS = """
@_ZTIi = external constant ptr
declare ptr @__cxa_allocate_exception(i64)
declare void @__cxa_throw(ptr, ptr, ptr)
define void @throws(i32 %x) {
  %p = call ptr @__cxa_allocate_exception(i64 4)
  store i32 %x, ptr %p
  call void @__cxa_throw(ptr %p, ptr @_ZTIi, ptr null)
  unreachable
}
"""
#: Catches float, its own type, and int: one near type, two far ones; then everything.
CATCHES = """
@_ZTIf = external constant ptr
@_ZTIi = external constant ptr
@_ZTVN10__cxxabiv117__class_type_infoE = external global ptr
@_ZTS3own = constant [4 x i8] c"3own"
@_ZTI3own = constant { ptr, ptr } {
  ptr getelementptr (ptr, ptr @_ZTVN10__cxxabiv117__class_type_infoE, i64 2), ptr @_ZTS3own }
declare i32 @__gxx_personality_v0(...)
declare i32 @llvm.eh.typeid.for.p0(ptr)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare void @throws(i32)
define i32 @catches(i32 %x) personality ptr @__gxx_personality_v0 {
  invoke void @throws(i32 %x) to label %fine unwind label %pad
fine: ret i32 0
pad:
  %e = landingpad { ptr, i32 } catch ptr @_ZTIf catch ptr @_ZTI3own catch ptr @_ZTIi
  %p = extractvalue { ptr, i32 } %e, 0
  %s = extractvalue { ptr, i32 } %e, 1
  %t = call i32 @llvm.eh.typeid.for.p0(ptr @_ZTIi)
  %is = icmp eq i32 %s, %t
  %v = call ptr @__cxa_begin_catch(ptr %p)
  %i = load i32, ptr %v
  call void @__cxa_end_catch()
  %r = select i1 %is, i32 %i, i32 -1
  ret i32 %r
}
define i32 @catches_all(i32 %x) personality ptr @__gxx_personality_v0 {
  invoke void @throws(i32 %x) to label %fine unwind label %pad
fine: ret i32 0
pad:
  %e = landingpad { ptr, i32 } catch ptr @_ZTIf catch ptr null
  %p = extractvalue { ptr, i32 } %e, 0
  %v = call ptr @__cxa_begin_catch(ptr %p)
  call void @__cxa_end_catch()
  ret i32 77
}
"""
KINDS = {
    **dict.fromkeys(("_ZTIi", "_ZTIf", "_ZTVN10__cxxabiv117__class_type_infoE"), "variable"),
    **dict.fromkeys(("throws", "__gxx_personality_v0", "__cxa_throw"), "function"),
}


@pytest.mark.parametrize(
    "reloc, model", [("static", "small"), ("pic", "small"), ("static", "large")]
)
@pytest.mark.parametrize("level", [0, 2])
def test_thrown_in_one_cell_and_caught_in_another(arena, level, reloc, model):
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    if not lookup(["__cxa_throw"])[0]:
        pytest.skip("no libstdc++ in this process")
    for cell, source in enumerate((THROWS, CATCHES), 1):
        linker.place(compile_ir(source, level, reloc, model), cell, kinds=KINDS)
    linker.check()
    with mapped(arena), unwinding(linker):
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
        catches = call(linker.symbols["catches"].address)
        assert [catches(n) for n in (5, 6, 7)] == [5, 6, 7]
        assert call(linker.symbols["catches_all"].address)(1) == 77
