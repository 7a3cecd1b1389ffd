; The executor's native runtime, as LLVM IR: the ground that its other parts stand on.
; Raw system calls only; the library's functions are reached through addresses that child.py put
; into the control block, so that nothing here is ever resolved twice.  `$name` is a control word or
; a buffer (abi.py), `i64 $name` its address as a number, `$r_name` a word of the fault record,
; `$NAME` a number (abi.py); `jk_control` is bound to the start of the region runtime.data.

@jk_control = external dso_local global [851968 x i8]

declare dso_local i32 @jk_enter(i64, i64, i64, i64)
declare dso_local void @jk_recover()
declare dso_local void @jk_restorer()
declare dso_local void @jk_on_exit()

define internal i64 @sys(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) #1 {
  %r = call i64 asm sideeffect "syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}"(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %r
}

define internal void @copy(i64 %to, i64 %from, i64 %size) #1 {
  %r = call { i64, i64, i64 } asm sideeffect "rep movsb", "={rdi},={rsi},={rcx},0,1,2,~{memory}"(i64 %to, i64 %from, i64 %size)
  ret void
}

define internal void @zero(i64 %to, i64 %size) #1 {
  %r = call { i64, i64 } asm sideeffect "rep stosb", "={rdi},={rcx},0,1,{rax},~{memory}"(i64 %to, i64 %size, i64 0)
  ret void
}

; A word of a structure.
define internal i64 @word(ptr %structure, i64 %offset) #1 {
  %at = getelementptr i8, ptr %structure, i64 %offset
  %word = load volatile i64, ptr %at
  ret i64 %word
}

attributes #0 = { nounwind noinline noredzone "no-builtins" "frame-pointer"="none" }
attributes #1 = { nounwind alwaysinline "no-builtins" }
