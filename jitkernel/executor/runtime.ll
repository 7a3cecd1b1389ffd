; The executor's runtime: signal handlers, the record of what happened, and the loop that serves
; requests.  Raw system calls only; the library's functions are reached through addresses that the
; executor's Python part put into the control block, so that nothing here is ever resolved twice.
; `$name` is a control word or a buffer (control.py), `$r_name` a word of the fault record;
; `jk_control` is bound to the start of the region runtime.data.  runtime.s has the entry points.

@jk_control = external dso_local global [917504 x i8]

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

; -- before and after user code ---------------------------------------------------------------

; Install a handler (0: the default action) for a signal, every signal blocked while it runs.
; flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER, no SA_RESTART
define internal void @handle(i64 %signal, i64 %handler) #0 {
  %act = alloca [4 x i64], align 8
  store i64 %handler, ptr %act
  %flags = getelementptr i64, ptr %act, i64 1
  store i64 u0x0C000004, ptr %flags
  %restorer = getelementptr i64, ptr %act, i64 2
  store i64 ptrtoint (ptr @jk_restorer to i64), ptr %restorer
  %mask = getelementptr i64, ptr %act, i64 3
  store i64 -1, ptr %mask
  %a = ptrtoint ptr %act to i64
  %r = call i64 @sys(i64 13, i64 %signal, i64 %a, i64 0, i64 8, i64 0, i64 0)
  ret void
}

; What every entry renews, whatever the last cell did to signals.
define dso_local void @jk_arm() #0 {
  %h = ptrtoint ptr @jk_handler to i64
  call void @handle(i64 11, i64 %h)
  call void @handle(i64 7, i64 %h)
  call void @handle(i64 8, i64 %h)
  call void @handle(i64 4, i64 %h)
  call void @handle(i64 5, i64 %h)
  call void @handle(i64 6, i64 %h)
  call void @handle(i64 62, i64 %h)
  %stack = ptrtoint ptr $alt_stack to i64
  %r1 = call i64 @sys(i64 131, i64 %stack, i64 0, i64 0, i64 0, i64 0, i64 0)
  ; unblock 4 5 6 7 8 11 62, and remember what is blocked then
  %ours = alloca i64, align 8
  store i64 u0x20000000000004F8, ptr %ours
  %set = ptrtoint ptr %ours to i64
  %old = ptrtoint ptr $saved_mask to i64
  %r2 = call i64 @sys(i64 14, i64 1, i64 %set, i64 %old, i64 8, i64 0, i64 0)
  %was = load volatile i64, ptr $saved_mask
  %now = and i64 %was, u0xDFFFFFFFFFFFFB07
  store volatile i64 %now, ptr $saved_mask
  ret void
}

; User code returned.  In a forked child that is the end of it: only the parent answers.
define dso_local void @jk_leave() #0 {
  %pid = call i64 @sys(i64 39, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %ours = load volatile i64, ptr $pid
  %same = icmp eq i64 %pid, %ours
  br i1 %same, label %parent, label %child
child:
  %fflush = load volatile ptr, ptr $libc_fflush
  %r = call i32 %fflush(ptr null)
  %x = load volatile ptr, ptr $libc__exit
  call void %x(i32 0)
  unreachable
parent:
  call void @flush()
  store volatile i64 0, ptr $running
  call void @unlock_text()
  ret void
}

; A thread that was stopped is back on its own stack.
define dso_local void @jk_settle() #0 {
  %mask = ptrtoint ptr $saved_mask to i64
  %r = call i64 @sys(i64 14, i64 2, i64 %mask, i64 0, i64 8, i64 0, i64 0)
  call void @unlock_text()
  ret void
}

; Write out what the program printed, drop the input that it left unread.  Not fflush(NULL): that
; waits for every stream's lock, and a thread of the user's may hold one while it waits to read.
define internal void @flush() #0 {
  call void @flush_one(ptr $libc_stdout)
  call void @flush_one(ptr $libc_stderr)
  %variable = load volatile ptr, ptr $libc_stdin
  %stdin = load volatile ptr, ptr %variable
  %none = icmp eq ptr %stdin, null
  br i1 %none, label %done, label %look
look:
  ; struct _IO_FILE (glibc): the lock at 136
  %lock_at = getelementptr i8, ptr %stdin, i64 136
  %lock = load volatile ptr, ptr %lock_at
  %lockless = icmp eq ptr %lock, null
  br i1 %lockless, label %purge, label %held
held:
  %word = load volatile i32, ptr %lock
  %busy = icmp ne i32 %word, 0
  br i1 %busy, label %done, label %purge
purge:
  %fpurge = load volatile ptr, ptr $libc_fpurge
  call void %fpurge(ptr %stdin)
  br label %done
done:
  ret void
}

define internal void @flush_one(ptr %word) #0 {
  %variable = load volatile ptr, ptr %word
  %stream = load volatile ptr, ptr %variable
  %none = icmp eq ptr %stream, null
  br i1 %none, label %done, label %flush
flush:
  %fflush = load volatile ptr, ptr $libc_fflush
  %r = call i32 %fflush(ptr %stream)
  br label %done
done:
  ret void
}

; -- the text zone, not executable while an interrupt waits for a library to return -------------

define internal void @lock_text() #0 {
  %start = load volatile i64, ptr $text_start
  %stop = load volatile i64, ptr $text_stop
  %size = sub i64 %stop, %start
  store atomic i32 1, ptr $text_locked seq_cst, align 4
  %r = call i64 @sys(i64 10, i64 %start, i64 %size, i64 1, i64 0, i64 0, i64 0)
  ret void
}

define internal void @unlock_text() #0 {
  %locked = load atomic i32, ptr $text_locked seq_cst, align 4
  %free = icmp eq i32 %locked, 0
  br i1 %free, label %done, label %unlock
unlock:
  %start = load volatile i64, ptr $text_start
  %stop = load volatile i64, ptr $text_stop
  %size = sub i64 %stop, %start
  %r1 = call i64 @sys(i64 10, i64 %start, i64 %size, i64 5, i64 0, i64 0, i64 0)
  store atomic i32 0, ptr $text_locked seq_cst, align 4
  %word = ptrtoint ptr $text_locked to i64
  %r2 = call i64 @sys(i64 202, i64 %word, i64 129, i64 2147483647, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}

; For the time that text is written: the user's own threads wait at their next instruction of it.
define dso_local void @jk_park() #0 {
  call void @lock_text()
  ret void
}

define dso_local void @jk_unpark() #0 {
  call void @unlock_text()
  ret void
}

; A thread of the user's own that runs session code meanwhile waits here, then tries again.
define internal void @wait_for_text() #0 {
  br label %again
again:
  %locked = load atomic i32, ptr $text_locked seq_cst, align 4
  %free = icmp eq i32 %locked, 0
  br i1 %free, label %done, label %wait
wait:
  %word = ptrtoint ptr $text_locked to i64
  %r = call i64 @sys(i64 202, i64 %word, i64 128, i64 1, i64 0, i64 0, i64 0)
  br label %again
done:
  ret void
}

; -- the record ---------------------------------------------------------------------------------

; Copy the stack from sp up, page by page: what is not mapped (an overflow) is copied as zeros.
define internal void @copy_stack(i64 %sp) #0 {
  %top = load volatile i64, ptr $saved_rsp
  %room = load volatile i64, ptr $stack_size
  %depth = sub i64 %top, %sp
  %outside = icmp ugt i64 %depth, %room
  %large = icmp ugt i64 %depth, $stack_copy_size
  %fits = select i1 %large, i64 $stack_copy_size, i64 %depth
  %size = select i1 %outside, i64 0, i64 %fits
  store volatile i64 %top, ptr $r_stack_top
  store volatile i64 %size, ptr $r_stack_size
  %vector = alloca i64, align 8
  %v = ptrtoint ptr %vector to i64
  %end = add i64 %sp, %size
  br label %loop
loop:
  %at = phi i64 [ %sp, %0 ], [ %next, %copied ]
  %more = icmp ult i64 %at, %end
  br i1 %more, label %page, label %done
page:
  %start = and i64 %at, -4096
  %stop = add i64 %start, 4096
  %last = icmp ugt i64 %stop, %end
  %next = select i1 %last, i64 %end, i64 %stop
  %part = sub i64 %next, %at
  %gone = sub i64 %at, %sp
  %base = ptrtoint ptr $stack_copy to i64
  %to = add i64 %base, %gone
  %mapped = call i64 @sys(i64 27, i64 %start, i64 4096, i64 %v, i64 0, i64 0, i64 0)
  %bad = icmp slt i64 %mapped, 0
  br i1 %bad, label %missing, label %present
missing:
  call void @zero(i64 %to, i64 %part)
  br label %copied
present:
  call void @copy(i64 %to, i64 %at, i64 %part)
  br label %copied
copied:
  br label %loop
done:
  ret void
}

define internal void @record(i64 %kind, i64 %cause, i64 %thread, i64 %library, i64 %pc, i64 %sp) #0 {
  store volatile i64 %kind, ptr $r_kind
  store volatile i64 %cause, ptr $r_cause
  store volatile i64 %thread, ptr $r_thread
  store volatile i64 %library, ptr $r_library
  store volatile i64 %pc, ptr $r_pc
  store volatile i64 %sp, ptr $r_sp
  call void @copy_stack(i64 %sp)
  fence seq_cst
  %seq = load volatile i64, ptr $seq
  store volatile i64 %seq, ptr $r_seq
  ret void
}

; Whether this thread may write the record: the cell's thread does unless the record is kept, any
; other only where nobody did.
define internal i1 @take_record(i1 %mine) #0 {
  %kept = load volatile i64, ptr $record_kept
  %open = icmp eq i64 %kept, 0
  %r = cmpxchg ptr $record_taken, i64 0, i64 1 seq_cst seq_cst
  %first = extractvalue { i64, i1 } %r, 1
  %may = or i1 %first, %mine
  %yes = and i1 %may, %open
  ret i1 %yes
}

define internal void @record_signal(i64 %signal, ptr %info, ptr %context) #0 {
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %code64 = sext i32 %code to i64
  %address_at = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %address_at
  %error_at = getelementptr i8, ptr %context, i64 192
  %error = load i64, ptr %error_at
  %trap_at = getelementptr i8, ptr %context, i64 200
  %trap = load i64, ptr %trap_at
  store volatile i64 %signal, ptr $r_signal
  store volatile i64 %code64, ptr $r_code
  store volatile i64 %address, ptr $r_address
  store volatile i64 %error, ptr $r_error
  store volatile i64 %trap, ptr $r_trap
  store volatile i64 0, ptr $r_status
  store volatile i64 0, ptr $r_stub
  store volatile i64 0, ptr $r_caller
  %registers = ptrtoint ptr $r_reg_r8 to i64
  %saved = getelementptr i8, ptr %context, i64 40
  %from = ptrtoint ptr %saved to i64
  call void @copy(i64 %registers, i64 %from, i64 144)
  ret void
}

; -- the handler --------------------------------------------------------------------------------

; ucontext_t: general registers from byte 40 (rsp 160, rip 168, eflags 176, error 192, trap 200),
; signal mask at 296.  siginfo_t: code at 8, address at 16.  (Linux, asm/sigcontext.h)
define dso_local void @jk_handler(i32 %signal32, ptr %info, ptr %context) #0 {
entry:
  %signal = zext i32 %signal32 to i64
  %pid = call i64 @sys(i64 39, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tid = call i64 @sys(i64 186, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %rip_at = getelementptr i8, ptr %context, i64 168
  %rip = load i64, ptr %rip_at
  %rsp_at = getelementptr i8, ptr %context, i64 160
  %rsp = load i64, ptr %rsp_at
  %text_start = load volatile i64, ptr $text_start
  %text_stop = load volatile i64, ptr $text_stop
  %text_size = sub i64 %text_stop, %text_start
  %text_at = sub i64 %rip, %text_start
  %in_text = icmp ult i64 %text_at, %text_size
  %runtime_start = load volatile i64, ptr $runtime_start
  %runtime_stop = load volatile i64, ptr $runtime_stop
  %runtime_size = sub i64 %runtime_stop, %runtime_start
  %runtime_at = sub i64 %rip, %runtime_start
  %in_runtime = icmp ult i64 %runtime_at, %runtime_size
  %in_ours = or i1 %in_text, %in_runtime
  %our_tid = load volatile i64, ptr $tid
  %mine = icmp eq i64 %tid, %our_tid
  %on = load volatile i64, ptr $running
  %running = icmp ne i64 %on, 0
  %in_service = load volatile i64, ptr $service
  %user = icmp eq i64 %in_service, 0
  %seq = load volatile i64, ptr $seq
  %asked = load volatile i64, ptr $interrupt_seq
  %meant = icmp eq i64 %seq, %asked
  %runs_cell = and i1 %running, %user
  %interruptible = and i1 %runs_cell, %meant
  ; the control block is shared with forked children, which are not what it speaks of
  %our_pid = load volatile i64, ptr $pid
  %same = icmp eq i64 %pid, %our_pid
  br i1 %same, label %ours, label %default

ours:
  %is_interrupt = icmp eq i64 %signal, 62
  br i1 %is_interrupt, label %interrupt, label %fault

interrupt:
  br i1 %mine, label %for_me, label %forward
forward:
  %r1 = call i64 @sys(i64 234, i64 %pid, i64 %our_tid, i64 62, i64 0, i64 0, i64 0)
  ret void
for_me:
  br i1 %interruptible, label %asked_for, label %ignore
ignore:
  ret void
asked_for:
  br i1 %in_ours, label %stop_here, label %in_library
in_library:
  %force = load volatile i64, ptr $force_seq
  %forced = icmp eq i64 %force, %seq
  br i1 %forced, label %stop_library, label %lock
lock:
  %locked = load atomic i32, ptr $text_locked seq_cst, align 4
  %already = icmp ne i32 %locked, 0
  br i1 %already, label %ignore, label %lock_now
lock_now:
  call void @lock_text()
  ret void
stop_here:
  call void @stop(i64 %signal, ptr %info, ptr %context, i64 0)
  ret void
stop_library:
  call void @stop(i64 %signal, ptr %info, ptr %context, i64 1)
  ret void

fault:
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %real = icmp sgt i32 %code, 0
  %address_at = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %address_at
  %is_segv = icmp eq i64 %signal, 11
  %real_segv = and i1 %real, %is_segv
  %at_pc = icmp eq i64 %address, %rip
  %fetch = and i1 %real_segv, %at_pc
  %text_fetch = and i1 %fetch, %in_text
  br i1 %text_fetch, label %locked_text, label %real_fault

locked_text:
  br i1 %mine, label %locked_mine, label %locked_other
locked_other:
  call void @wait_for_text()
  ret void
locked_mine:
  br i1 %interruptible, label %stop_here, label %stale
stale:
  call void @unlock_text()
  ret void

real_fault:
  br i1 %mine, label %my_fault, label %other_fault
other_fault:
  %may_other = call i1 @take_record(i1 false)
  br i1 %may_other, label %record_other, label %default
record_other:
  call void @record_signal(i64 %signal, ptr %info, ptr %context)
  call void @record(i64 1, i64 0, i64 1, i64 0, i64 %rip, i64 %rsp)
  br label %default
my_fault:
  br i1 %running, label %cell_fault, label %default

cell_fault:
  ; A jump to what is no code is the cell's own doing, not a library's: the fetch itself failed,
  ; or the address is not canonical.
  %high = ashr i64 %rip, 47
  %odd = icmp ne i64 %high, 0
  %wild = or i1 %fetch, %odd
  %not_library = or i1 %wild, %in_ours
  %library = select i1 %not_library, i64 0, i64 1
  %trap_at = getelementptr i8, ptr %context, i64 200
  %trap = load i64, ptr %trap_at
  ; int3 reports the address behind it
  %is_int3 = icmp eq i64 %trap, 3
  %is_trap = icmp eq i64 %signal, 5
  %behind = and i1 %is_int3, %is_trap
  %back = zext i1 %behind to i64
  %pc = sub i64 %rip, %back
  %may = call i1 @take_record(i1 true)
  br i1 %may, label %record_cell, label %recover
record_cell:
  call void @record_signal(i64 %signal, ptr %info, ptr %context)
  call void @record(i64 1, i64 0, i64 0, i64 %library, i64 %pc, i64 %rsp)
  br label %recover
recover:
  call void @resume(ptr %context)
  ret void

default:
  call void @handle(i64 %signal, i64 0)
  %r2 = call i64 @sys(i64 234, i64 %pid, i64 %tid, i64 %signal, i64 0, i64 0, i64 0)
  ret void
}

; End the cell because the kernel process asked for it.
define internal void @stop(i64 %signal, ptr %info, ptr %context, i64 %library) #0 {
  store volatile i64 0, ptr $interrupt_seq
  %may = call i1 @take_record(i1 true)
  br i1 %may, label %write, label %done
write:
  call void @record_signal(i64 %signal, ptr %info, ptr %context)
  %rip_at = getelementptr i8, ptr %context, i64 168
  %rip = load i64, ptr %rip_at
  %rsp_at = getelementptr i8, ptr %context, i64 160
  %rsp = load i64, ptr %rsp_at
  call void @record(i64 4, i64 0, i64 0, i64 %library, i64 %rip, i64 %rsp)
  br label %done
done:
  call void @resume(ptr %context)
  ret void
}

; Make the interrupted context continue in jk_recover, with plain flags.
define internal void @resume(ptr %context) #0 {
  store volatile i64 0, ptr $running
  %rip_at = getelementptr i8, ptr %context, i64 168
  store i64 ptrtoint (ptr @jk_recover to i64), ptr %rip_at
  %flags_at = getelementptr i8, ptr %context, i64 176
  store i64 514, ptr %flags_at
  %mask_at = getelementptr i8, ptr %context, i64 296
  %mask = load volatile i64, ptr $saved_mask
  store i64 %mask, ptr %mask_at
  call void @unlock_text()
  ret void
}

; Somebody calls for the end of the process (runtime.s).  block: rdi rsi rbp rbx r12-r15, return
; address.  1: the cell is over; 0: go on and do it.
define dso_local i32 @jk_note(i64 %status, i64 %cause, ptr %block) #0 {
entry:
  %pid = call i64 @sys(i64 39, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tid = call i64 @sys(i64 186, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %our_pid = load volatile i64, ptr $pid
  %our_tid = load volatile i64, ptr $tid
  %same = icmp eq i64 %pid, %our_pid
  %mine = icmp eq i64 %tid, %our_tid
  %on = load volatile i64, ptr $running
  %running = icmp ne i64 %on, 0
  %concerns = and i1 %same, %running
  br i1 %concerns, label %take, label %no
no:
  ret i32 0
take:
  %may = call i1 @take_record(i1 %mine)
  br i1 %may, label %write, label %written
write:
  %zero_at = ptrtoint ptr $r_kind to i64
  call void @zero(i64 %zero_at, i64 $record_size)
  %p2 = getelementptr i64, ptr %block, i64 2
  %rbp = load i64, ptr %p2
  store volatile i64 %rbp, ptr $r_reg_rbp
  %p3 = getelementptr i64, ptr %block, i64 3
  %rbx = load i64, ptr %p3
  store volatile i64 %rbx, ptr $r_reg_rbx
  %p4 = getelementptr i64, ptr %block, i64 4
  %from = ptrtoint ptr %p4 to i64
  %to = ptrtoint ptr $r_reg_r12 to i64
  call void @copy(i64 %to, i64 %from, i64 32)
  %p8 = getelementptr i64, ptr %block, i64 8
  %return = load i64, ptr %p8
  %p9 = getelementptr i64, ptr %block, i64 9
  %is_stub = icmp eq i64 %cause, 8
  br i1 %is_stub, label %stub, label %plain
stub:
  %stub_at = sub i64 %return, 5
  store volatile i64 %stub_at, ptr $r_stub
  %p10 = getelementptr i64, ptr %block, i64 10
  %caller_of_stub = load i64, ptr %p9
  br label %finish
plain:
  br label %finish
finish:
  %pc = phi i64 [ %caller_of_stub, %stub ], [ %return, %plain ]
  %sp_at = phi ptr [ %p10, %stub ], [ %p9, %plain ]
  %kind_exit = phi i64 [ 3, %stub ], [ 2, %plain ]
  ; abort and a smashed stack are faults in the eyes of a user
  %is_abort = icmp eq i64 %cause, 6
  %is_smashed = icmp eq i64 %cause, 7
  %is_fault = or i1 %is_abort, %is_smashed
  %kind = select i1 %is_fault, i64 1, i64 %kind_exit
  %signal = select i1 %is_fault, i64 6, i64 0
  %sp = ptrtoint ptr %sp_at to i64
  store volatile i64 %signal, ptr $r_signal
  store volatile i64 %status, ptr $r_status
  store volatile i64 %pc, ptr $r_caller
  store volatile i64 %pc, ptr $r_reg_rip
  store volatile i64 %sp, ptr $r_reg_rsp
  %in_library = icmp eq i64 %cause, 9
  %library = zext i1 %in_library to i64
  %other = xor i1 %mine, true
  %thread = zext i1 %other to i64
  call void @record(i64 %kind, i64 %cause, i64 %thread, i64 %library, i64 %pc, i64 %sp)
  br label %written
written:
  br i1 %mine, label %over, label %no
over:
  store volatile i64 0, ptr $running
  ret i32 1
}

; -- what the runtime itself runs under jk_enter -------------------------------------------------

; Give back the locks of stdio that abandoned frames of this thread held.
; struct _IO_FILE (glibc): next at 104, lock at 136; the lock: i32 futex, i32 count, owner at 8.
define internal void @unlock_stdio() #0 {
entry:
  %list = load volatile ptr, ptr $libc_files
  %unknown = icmp eq ptr %list, null
  br i1 %unknown, label %done, label %begin
begin:
  %self = call i64 asm "movq %fs:16, $0", "=r"()
  %first = load volatile ptr, ptr %list
  br label %loop
loop:
  %file = phi ptr [ %first, %begin ], [ %next, %go_on ]
  %count = phi i64 [ 0, %begin ], [ %counted, %go_on ]
  %counted = add i64 %count, 1
  %end = icmp eq ptr %file, null
  %many = icmp ugt i64 %count, 100000
  %stop = or i1 %end, %many
  br i1 %stop, label %done, label %look
look:
  %lock_at = getelementptr i8, ptr %file, i64 136
  %lock = load volatile ptr, ptr %lock_at
  %next_at = getelementptr i8, ptr %file, i64 104
  %next = load volatile ptr, ptr %next_at
  %lockless = icmp eq ptr %lock, null
  br i1 %lockless, label %go_on, label %owned
owned:
  %owner_at = getelementptr i8, ptr %lock, i64 8
  %owner = load volatile i64, ptr %owner_at
  %held = icmp eq i64 %owner, %self
  br i1 %held, label %release, label %go_on
release:
  store volatile i64 0, ptr %owner_at
  %count_at = getelementptr i8, ptr %lock, i64 4
  store volatile i32 0, ptr %count_at
  store atomic i32 0, ptr %lock seq_cst, align 4
  %word = ptrtoint ptr %lock to i64
  %r = call i64 @sys(i64 202, i64 %word, i64 129, i64 2147483647, i64 0, i64 0, i64 0)
  br label %go_on
go_on:
  br label %loop
done:
  ret void
}

; After a cell was stopped: what it printed so far belongs to it.
define internal void @tidy(i64 %fn, i64 %args, i64 %ret) #0 {
  call void @unlock_stdio()
  call void @flush()
  ; a library's exit() used up the handler that caught it
  %cause = load volatile i64, ptr $r_cause
  %used = icmp eq i64 %cause, 9
  br i1 %used, label %register, label %done
register:
  %on_exit = load volatile ptr, ptr $libc_on_exit
  %r = call i32 %on_exit(ptr @jk_on_exit, ptr null)
  br label %done
done:
  ret void
}

; A small, a middling and a large block: the thread's cache, its heap, a mapping.
define internal void @allocate() #0 {
  %malloc = load volatile ptr, ptr $libc_malloc
  %free = load volatile ptr, ptr $libc_free
  %a = call ptr %malloc(i64 40)
  %b = call ptr %malloc(i64 5000)
  %c = call ptr %malloc(i64 300000)
  call void %free(ptr %b)
  call void %free(ptr %a)
  call void %free(ptr %c)
  ret void
}

; Opening a stream takes the lock of the list of streams.
define internal ptr @fresh(ptr %unused) #0 {
  %tid = call i64 @sys(i64 186, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  store volatile i64 %tid, ptr $fresh_tid
  call void @allocate()
  %functions = alloca [4 x i64], align 8
  store [4 x i64] zeroinitializer, ptr %functions
  %mode = alloca i64, align 8
  store i64 114, ptr %mode
  %open = load volatile ptr, ptr $libc_fopencookie
  %stream = call ptr %open(ptr null, ptr %mode, ptr byval([4 x i64]) align 8 %functions)
  %close = load volatile ptr, ptr $libc_fclose
  %r = call i32 %close(ptr %stream)
  call void @flush_one(ptr $libc_stdout)
  call void @flush_one(ptr $libc_stderr)
  ret ptr null
}

; pthread_attr_t has 56 bytes (glibc); a small stack, for a limit of memory may be in force.
define internal void @health(i64 %fn, i64 %args, i64 %ret) #0 {
  store volatile i64 0, ptr $fresh_tid
  call void @allocate()
  %attributes = alloca [8 x i64], align 8
  %init = load volatile ptr, ptr $libc_pthread_attr_init
  %r0 = call i32 %init(ptr %attributes)
  %set_size = load volatile ptr, ptr $libc_pthread_attr_setstacksize
  %r1 = call i32 %set_size(ptr %attributes, i64 262144)
  %thread = alloca i64, align 8
  store volatile i64 -1, ptr $fresh_tid
  %create = load volatile ptr, ptr $libc_pthread_create
  %r2 = call i32 %create(ptr %thread, ptr %attributes, ptr @fresh, ptr null)
  %ok = icmp eq i32 %r2, 0
  br i1 %ok, label %join, label %sick
sick:
  call void asm sideeffect "ud2", ""()
  unreachable
join:
  %id = load i64, ptr %thread
  %pthread_join = load volatile ptr, ptr $libc_pthread_join
  %r3 = call i32 %pthread_join(i64 %id, ptr null)
  ret void
}

; A thunk: call `args` functions void() in a row, whose addresses are at `fn`.
define dso_local void @jk_each(ptr %list, i64 %count, i64 %ret) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  store volatile i64 %i, ptr $progress
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %at = getelementptr ptr, ptr %list, i64 %i
  %f = load ptr, ptr %at
  call void %f()
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

; -- serving ------------------------------------------------------------------------------------

; Register the unwind tables again when the kernel process has changed them.
define internal void @renew_unwind() #0 {
  %generation = load volatile i64, ptr $unwind_generation
  %seen = load volatile i64, ptr $seen_generation
  %current = icmp eq i64 %generation, %seen
  br i1 %current, label %done, label %renew
renew:
  %old = load volatile ptr, ptr $seen_start
  %none = icmp eq ptr %old, null
  br i1 %none, label %register, label %deregister
deregister:
  %forget = load volatile ptr, ptr $libc_deregister_frame
  call void %forget(ptr %old)
  br label %register
register:
  %start = load volatile ptr, ptr $unwind_start
  store volatile ptr %start, ptr $seen_start
  store volatile i64 %generation, ptr $seen_generation
  %empty = icmp eq ptr %start, null
  br i1 %empty, label %done, label %known
known:
  %learn = load volatile ptr, ptr $libc_register_frame
  call void %learn(ptr %start)
  br label %done
done:
  ret void
}

define internal i64 @inode(i64 %fd) #0 {
  %stat = alloca [18 x i64], align 8
  %at = getelementptr i64, ptr %stat, i64 1
  store volatile i64 0, ptr %at
  %s = ptrtoint ptr %stat to i64
  %r = call i64 @sys(i64 5, i64 %fd, i64 %s, i64 0, i64 0, i64 0, i64 0)
  %inode = load volatile i64, ptr %at
  ret i64 %inode
}

; Open a standard stream again that the cell closed; 1 when that was done.
define internal i64 @reopen(i64 %fd, ptr %keep) #0 {
  %r = call i64 @sys(i64 72, i64 %fd, i64 1, i64 0, i64 0, i64 0, i64 0)
  %open = icmp ne i64 %r, -9
  br i1 %open, label %good, label %closed
good:
  ret i64 0
closed:
  %from = load volatile i64, ptr %keep
  %d = call i64 @sys(i64 33, i64 %from, i64 %fd, i64 0, i64 0, i64 0, i64 0)
  %failed = icmp slt i64 %d, 0
  br i1 %failed, label %hopeless, label %back
hopeless:
  %x = call i64 @sys(i64 231, i64 97, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
back:
  ret i64 1
}

; Answer a request: kind, seq, 1 if the cell was stopped, 1 if the runtime could not tidy up,
; 1 if descriptors were opened again.  The kernel process finds the same in shared memory where
; the socket is gone; then this process has no more use.
define internal void @reply(i64 %op, i64 %seq, i64 %stopped, i64 %sick) #0 {
  store volatile i64 %stopped, ptr $done_stopped
  store volatile i64 %sick, ptr $done_sick
  store volatile i64 %seq, ptr $done_seq
  %r0 = call i64 @reopen(i64 0, ptr $keep_0)
  %r1 = call i64 @reopen(i64 1, ptr $keep_1)
  %r2 = call i64 @reopen(i64 2, ptr $keep_2)
  %r01 = or i64 %r0, %r1
  %reopened = or i64 %r01, %r2
  %socket = load volatile i64, ptr $socket
  %inode = call i64 @inode(i64 %socket)
  %expected = load volatile i64, ptr $socket_inode
  %good = icmp eq i64 %inode, %expected
  br i1 %good, label %send, label %lost
lost:
  %x1 = call i64 @sys(i64 231, i64 97, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
send:
  %frame = alloca [8 x i64], align 8
  store i64 %op, ptr %frame
  %f1 = getelementptr i64, ptr %frame, i64 1
  store i64 %seq, ptr %f1
  %f2 = getelementptr i64, ptr %frame, i64 2
  store i64 %stopped, ptr %f2
  %f3 = getelementptr i64, ptr %frame, i64 3
  store i64 %sick, ptr %f3
  %f4 = getelementptr i64, ptr %frame, i64 4
  store i64 %reopened, ptr %f4
  %f5 = getelementptr i64, ptr %frame, i64 5
  %f5a = ptrtoint ptr %f5 to i64
  call void @zero(i64 %f5a, i64 24)
  %at = ptrtoint ptr %frame to i64
  %r = call i64 @sys(i64 44, i64 %socket, i64 %at, i64 64, i64 16384, i64 0, i64 0)
  %sent = icmp eq i64 %r, 64
  br i1 %sent, label %done, label %gone
gone:
  call void @reap()
  unreachable
done:
  ret void
}

; Serve requests; returns the length of the first one that is for the Python part.
define dso_local i64 @jk_serve() #0 {
entry:
  br label %loop
loop:
  %socket = load volatile i64, ptr $socket
  %frame = ptrtoint ptr $frame to i64
  %n = call i64 @sys(i64 45, i64 %socket, i64 %frame, i64 $frame_size, i64 0, i64 0, i64 0)
  %again = icmp eq i64 %n, -4
  br i1 %again, label %loop, label %came
came:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %read, label %end
end:
  call void @reap()
  unreachable
read:
  %op = load volatile i64, ptr $frame
  %seq_at = getelementptr i8, ptr $frame, i64 8
  %seq = load volatile i64, ptr %seq_at
  switch i64 %op, label %python [ i64 1, label %call
                                  i64 2, label %check ]
python:
  ret i64 %n

call:
  store volatile i64 0, ptr $record_taken
  store volatile i64 0, ptr $record_kept
  store volatile i64 0, ptr $service
  store volatile i64 0, ptr $progress
  store volatile i64 0, ptr $r_seq
  store volatile i64 %seq, ptr $seq
  call void @renew_unwind()
  %thunk_at = getelementptr i8, ptr $frame, i64 16
  %thunk = load volatile i64, ptr %thunk_at
  %fn_at = getelementptr i8, ptr $frame, i64 24
  %fn = load volatile i64, ptr %fn_at
  %args_at = getelementptr i8, ptr $frame, i64 32
  %args = load volatile i64, ptr %args_at
  %ret_at = getelementptr i8, ptr $frame, i64 40
  %ret = load volatile i64, ptr %ret_at
  %stopped = call i32 @jk_enter(i64 %thunk, i64 %fn, i64 %args, i64 %ret)
  %ok = icmp eq i32 %stopped, 0
  br i1 %ok, label %answer, label %clean
clean:
  store volatile i64 1, ptr $record_kept
  store volatile i64 1, ptr $service
  %tidy = ptrtoint ptr @tidy to i64
  %untidy = call i32 @jk_enter(i64 %tidy, i64 0, i64 0, i64 0)
  store volatile i64 0, ptr $service
  store volatile i64 0, ptr $record_kept
  br label %answer
answer:
  %sick = phi i32 [ 0, %call ], [ %untidy, %clean ]
  %stopped64 = zext i32 %stopped to i64
  %sick64 = zext i32 %sick to i64
  call void @reply(i64 1, i64 %seq, i64 %stopped64, i64 %sick64)
  br label %loop

check:
  store volatile i64 1, ptr $record_kept
  store volatile i64 1, ptr $service
  %health = ptrtoint ptr @health to i64
  %bad = call i32 @jk_enter(i64 %health, i64 0, i64 0, i64 0)
  store volatile i64 0, ptr $service
  store volatile i64 0, ptr $record_kept
  %bad64 = zext i32 %bad to i64
  call void @reply(i64 2, i64 %seq, i64 0, i64 %bad64)
  br label %loop
}

; The thread that outlives nothing: when the kernel process ends, `fd` becomes readable, and this
; process turns into the program that ends its descendants and then itself.
define dso_local void @jk_watch(i64 %fd) #0 {
entry:
  %below = sub i64 %fd, 1
  %above = add i64 %fd, 1
  %first = icmp eq i64 %fd, 0
  br i1 %first, label %rest, label %lower
lower:
  %r1 = call i64 @sys(i64 436, i64 0, i64 %below, i64 0, i64 0, i64 0, i64 0)
  br label %rest
rest:
  %r2 = call i64 @sys(i64 436, i64 %above, i64 4294967295, i64 0, i64 0, i64 0, i64 0)
  %pollfd = alloca i64, align 8
  %p = ptrtoint ptr %pollfd to i64
  %wanted = or i64 %fd, 4294967296
  br label %wait
wait:
  store volatile i64 %wanted, ptr %pollfd
  %n = call i64 @sys(i64 7, i64 %p, i64 1, i64 -1, i64 0, i64 0, i64 0)
  %woke = icmp sgt i64 %n, 0
  br i1 %woke, label %end, label %wait
end:
  call void @reap()
  unreachable
}

; Become the program that ends what the kernel process left behind.
define internal void @reap() #0 {
  %path = load volatile i64, ptr $reaper_path
  %argv = load volatile i64, ptr $reaper_argv
  %envp = load volatile i64, ptr $reaper_envp
  %r3 = call i64 @sys(i64 59, i64 %path, i64 %argv, i64 %envp, i64 0, i64 0, i64 0)
  %r4 = call i64 @sys(i64 62, i64 0, i64 9, i64 0, i64 0, i64 0, i64 0)
  %r5 = call i64 @sys(i64 231, i64 9, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
}

attributes #0 = { nounwind noinline noredzone "no-builtins" "frame-pointer"="none" }
attributes #1 = { nounwind alwaysinline "no-builtins" }
