target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

%0 = type { i32, ptr }
%"odd type" = type { [2 x i32], %0 }
%struct.a = type <{ i8, i64 }>

@table = constant [2 x ptr] [ptr blockaddress(@jumps, %3), ptr blockaddress(@jumps, %"end \22here\22")]
@"a\\b c" = global i32 0
@g = global i64 1
@str = private constant [4 x i8] c"{};\00"
module asm ".globl marker"

declare i32 @personality(...)
declare void @may_throw(i32) #0
declare token @llvm.experimental.gc.statepoint.p0(i64 immarg, i32 immarg, ptr, i32 immarg, i32 immarg, ...)
declare ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token, i32 immarg, i32 immarg)
declare void @llvm.assume(i1)
declare i32 @printf(ptr, ...)
declare void @take(target("spirv.Image", void, 0))
declare i64 @llvm.read_register.i64(metadata)
declare <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v4i32(<vscale x 4 x i32>, <4 x i32>, i64)

define i32 @jumps(i32 %0, ptr %1) {
  indirectbr ptr %1, [label %3, label %"end \22here\22"]

3:
  %4 = icmp eq i32 %0, 0
  br i1 %4, label %"end \22here\22", label %3

"end \22here\22":
  %"a\\b" = phi i32 [ 1, %2 ], [ %0, %3 ]
  ret i32 %"a\\b"
}

define i32 @assembly(i32 %x, ptr %p) {
  %a = call i32 asm "bswap $0", "=r,0,~{dirflag},~{fpsr},~{flags}"(i32 %x) #1
  call void asm sideeffect inteldialect "nop # }", "r,*m"(i32 %a, ptr elementtype(i32) %p)
  %b = callbr i32 asm "jmp ${1:l}", "=r,!i,!i"()
          to label %fall [label %one, label %two]

fall:
  ret i32 %b

one:
  ret i32 1

two:
  ret i32 2
}

define i32 @throws(i32 %x) personality ptr @personality {
entry:
  invoke void @may_throw(i32 noundef signext %x)
          to label %good unwind label %bad

good:
  %r = invoke i32 @jumps(i32 %x, ptr null) [ "deopt"(i32 %x, ptr @g), "other"() ]
          to label %done unwind label %bad, !prof !0

done:
  ret i32 %r

bad:
  %lp = landingpad { ptr, i32 }
          cleanup
          catch ptr @"a\\b c"
          filter [1 x ptr] [ptr @g]
  %value = extractvalue { ptr, i32 } %lp, 1
  %c = icmp sgt i32 %value, 0
  br i1 %c, label %again, label %out

again:
  resume { ptr, i32 } %lp

out:
  ret i32 %value
}

define i32 @windows(i32 %x) personality ptr @personality {
entry:
  invoke void @may_throw(i32 %x)
          to label %done unwind label %dispatch

dispatch:
  %cs = catchswitch within none [label %handler, label %second] unwind label %cleanup

handler:
  %cp = catchpad within %cs [ptr null, i32 64, ptr @g]
  invoke void @may_throw(i32 1) [ "funclet"(token %cp) ]
          to label %leave unwind label %cleanup

leave:
  catchret from %cp to label %done

second:
  %cp2 = catchpad within %cs [ptr @g, i32 %x, ptr null]
  catchret from %cp2 to label %done

cleanup:
  %cl = cleanuppad within none []
  cleanupret from %cl unwind to caller

done:
  ret i32 0
}

define ptr addrspace(1) @collected(ptr addrspace(1) %obj, ptr addrspace(1) %other) gc "statepoint-example" {
  %token = call token (i64, i32, ptr, i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 0, i32 0, ptr elementtype(void (i32)) @may_throw, i32 1, i32 0, i32 7, i32 0, i32 0) [ "gc-live"(ptr addrspace(1) %obj, ptr addrspace(1) %other) ]
  %new = call coldcc ptr addrspace(1) @llvm.experimental.gc.relocate.p1(token %token, i32 0, i32 1)
  ret ptr addrspace(1) %new
}

define <vscale x 4 x i32> @scalable(<vscale x 4 x i32> %v, ptr %p) {
  %w = load <vscale x 4 x i32>, ptr %p, align 16
  %s = add <vscale x 4 x i32> %v, splat (i32 3)
  %t = shufflevector <vscale x 4 x i32> %s, <vscale x 4 x i32> poison, <vscale x 4 x i32> zeroinitializer
  %c = icmp slt <vscale x 4 x i32> %t, %w
  %r = select <vscale x 4 x i1> %c, <vscale x 4 x i32> %t, <vscale x 4 x i32> %w
  %i = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v4i32(<vscale x 4 x i32> %r, <4 x i32> <i32 1, i32 2, i32 3, i32 4>, i64 0)
  ret <vscale x 4 x i32> %i
}

define void @targets(target("spirv.Image", void, 0) %image) {
  call void @take(target("spirv.Image", void, 0) %image)
  ret void
}

define i64 @types(ptr %0, %0 %"b c", %"odd type" %odd, <2 x ptr> %many, i32 %n) {
  %2 = extractvalue %0 %"b c", 0
  %3 = extractvalue %"odd type" %odd, 1, 1
  %4 = insertvalue %0 %"b c", i32 %2, 0
  %5 = getelementptr inbounds nuw %0, ptr %0, i64 1, i32 1
  %6 = getelementptr %0, <2 x ptr> %many, i64 2
  %7 = getelementptr i8, ptr %5, <2 x i64> <i64 1, i64 2>
  %8 = alloca %0, i32 %n, align 8
  %9 = alloca inalloca %struct.a, align 8
  %10 = cmpxchg weak volatile ptr %0, i32 %2, i32 %n syncscope("singlethread") acq_rel monotonic, align 4
  %11 = extractvalue { i32, i1 } %10, 1
  %12 = atomicrmw volatile umax ptr %0, i32 %n seq_cst, align 4
  %13 = va_arg ptr %0, i64
  %14 = ptrtoint ptr getelementptr inbounds (%0, ptr @g, i64 1, i32 1) to i64
  %15 = select i1 %11, i64 %14, i64 ptrtoint (ptr @"a\\b c" to i64)
  %16 = load atomic volatile i64, ptr @g acquire, align 8
  store atomic i64 %16, ptr @g release, align 8
  fence syncscope("singlethread") seq_cst
  %17 = shufflevector <2 x ptr> %many, <2 x ptr> %6, <4 x i32> <i32 0, i32 3, i32 poison, i32 1>
  %18 = extractelement <4 x ptr> %17, i32 %2
  %19 = insertelement <2 x ptr> %7, ptr %18, i64 0
  %20 = fadd reassoc nnan double 0x3FF0000000000000, -1.500000e+00
  %21 = fcmp ninf ult double %20, 0x7FF0000000000000
  %22 = freeze i1 %21
  %23 = call fast double @llvm.sqrt.f64(double %20)
  %24 = musttail call i64 @types(ptr %0, %0 %"b c", %"odd type" %odd, <2 x ptr> %many, i32 %n)
  ret i64 %24
}

declare double @llvm.sqrt.f64(double)

define void @forwards(ptr %f, ...) {
  %r = call i64 @llvm.read_register.i64(metadata !1)
  %c = call i32 (ptr, ...) @printf(ptr @str, i64 %r, double 0x7FF8000000000000)
  %p = call range(i32 0, 10) i32 %f(i32 noundef range(i32 -5, 5) %c, ptr nonnull align 8 dereferenceable(16) null, float nofpclass(nan inf) 1.0) #1
  call void @llvm.assume(i1 true) [ "align"(ptr %f, i64 8) ]
  musttail call void (ptr, ...) @forwards(ptr %f, ...)
  ret void
}

attributes #0 = { nounwind "key"="value }" }
attributes #1 = { nounwind }

!0 = !{!"branch_weights", i32 1, i32 2}
!1 = !{!"rsp\00"}
