; The signal handler, and the ways of ending a cell.

define dso_local void @jk_handler(i32 %signal32, ptr %info, ptr %context) #0 {
  %signal = zext i32 %signal32 to i64
  %is_sigtrap = icmp eq i32 %signal32, $SIGTRAP
  br i1 %is_sigtrap, label %trapped, label %entry
trapped:
  %answer = call i64 @trap(ptr %info, ptr %context)
  switch i64 %answer, label %entry [ i64 $GO, label %ignore
                                     i64 $OWN, label %own ]
own:
  %dealt = call i1 @handled(i32 %signal32, ptr %info, ptr %context)
  br i1 %dealt, label %ignore, label %entry
entry:
  %told = phi i64 [ $GO, %0 ], [ %answer, %trapped ], [ $OWN, %own ]
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %rip = call i64 @word(ptr %context, i64 $UC_RIP)
  %rsp = call i64 @word(ptr %context, i64 $UC_RSP)
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
  ; A thread that asks for code is as if in a library: it is stopped when it comes back.
  %asking = load atomic i64, ptr $wake_tid seq_cst, align 8
  %asks = icmp eq i64 %asking, %tid
  %plain = xor i1 %asks, true
  %in_ours_alone = and i1 %in_runtime, %plain
  %in_ours = or i1 %in_text, %in_ours_alone
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
  %is_interrupt = icmp eq i64 %signal, $SIGINTERRUPT
  br i1 %is_interrupt, label %interrupt, label %fault

interrupt:
  %standing = load atomic i64, ptr $stop_standing seq_cst, align 8
  %another = icmp ne i64 %standing, 0
  br i1 %another, label %stand_too, label %to_whom
stand_too:
  call void @stand_by(i64 %standing, ptr %context)
  ret void
to_whom:
  br i1 %mine, label %for_me, label %others
others:  ; what was to make this thread stand came late, and is not for the cell's
  %how_at = getelementptr i8, ptr %info, i64 $SI_CODE
  %how = load i32, ptr %how_at
  %late = icmp eq i32 %how, $SI_TKILL
  br i1 %late, label %ignore, label %forward
forward:
  %r1 = call i64 @sys(i64 $SYS_tgkill, i64 %pid, i64 %our_tid, i64 $SIGINTERRUPT, i64 0, i64 0, i64 0)
  ret void
for_me:
  br i1 %interruptible, label %asked_for, label %pausing
pausing:
  %asked_seq = load volatile i64, ptr $pause_seq
  %paused = icmp eq i64 %seq, %asked_seq
  %stands = and i1 %runs_cell, %paused
  br i1 %stands, label %pause, label %ignore
pause:
  store volatile i64 0, ptr $pause_seq
  %wish = call i64 @stand(i64 $WHY_pause, i64 %signal, ptr %info, ptr %context)
  %ends = icmp eq i64 %wish, $END
  br i1 %ends, label %asked_for, label %ignore
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

end_here:
  br i1 %in_ours, label %stop_here, label %stop_library

fault:
  %over = icmp eq i64 %told, $END
  br i1 %over, label %end_here, label %not_over
not_over:
  %code_at = getelementptr i8, ptr %info, i64 $SI_CODE
  %code = load i32, ptr %code_at
  %real = icmp sgt i32 %code, 0
  %address = call i64 @word(ptr %info, i64 $SI_ADDR)
  %is_segv = icmp eq i64 %signal, $SIGSEGV
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
  br i1 %interruptible, label %stop_here, label %for_whom
for_whom:
  ; another thread asks for code: wait for that, too
  %nobody = icmp eq i64 %asking, 0
  br i1 %nobody, label %stale, label %locked_other
stale:
  call void @open_text()
  ret void

real_fault:
  br i1 %mine, label %my_fault, label %other_fault
other_fault:
  %may_other = call i1 @take_record(i1 false)
  br i1 %may_other, label %record_other, label %default
record_other:
  call void @record_signal(i64 %signal, ptr %info, ptr %context)
  call void @record(i64 $KIND_fault, i64 0, i64 1, i64 0, i64 %rip, i64 %rsp)
  br label %default
my_fault:
  br i1 %running, label %stop_first, label %default
stop_first:
  %stopping = load volatile i64, ptr $stop_faults
  %stops = icmp ne i64 %stopping, 0
  %no_trap = icmp eq i64 %told, $GO
  %own_fault = and i1 %no_trap, %user
  %stops_here = and i1 %stops, %own_fault
  br i1 %stops_here, label %at_fault, label %cell_fault
at_fault:
  %then = call i64 @stand(i64 $WHY_fault, i64 %signal, ptr %info, ptr %context)
  switch i64 %then, label %cell_fault [ i64 $GO, label %ignore
                                        i64 $END, label %end_here ]

cell_fault:
  ; A jump to what is no code is the cell's own doing, not a library's: the fetch itself failed,
  ; or the address is not canonical.
  %high = ashr i64 %rip, 47
  %odd = icmp ne i64 %high, 0
  %wild = or i1 %fetch, %odd
  %not_library = or i1 %wild, %in_ours
  %library = select i1 %not_library, i64 0, i64 1
  %trap = call i64 @word(ptr %context, i64 $UC_TRAPNO)
  ; int3 reports the address behind it
  %is_int3 = icmp eq i64 %trap, $TRAP_INT3
  %is_trap = icmp eq i64 %signal, $SIGTRAP
  %behind = and i1 %is_int3, %is_trap
  %back = zext i1 %behind to i64
  %pc = sub i64 %rip, %back
  %may = call i1 @take_record(i1 true)
  br i1 %may, label %record_cell, label %recover
record_cell:
  call void @record_signal(i64 %signal, ptr %info, ptr %context)
  call void @record(i64 $KIND_fault, i64 0, i64 0, i64 %library, i64 %pc, i64 %rsp)
  br label %recover
recover:
  call void @resume(ptr %context)
  ret void

default:
  call void @handle(i64 %signal, i64 0)
  %r2 = call i64 @sys(i64 $SYS_tgkill, i64 %pid, i64 %tid, i64 %signal, i64 0, i64 0, i64 0)
  ret void
}

; End the cell because the kernel process asked for it.
define internal void @stop(i64 %signal, ptr %info, ptr %context, i64 %library) #0 {
  store volatile i64 0, ptr $interrupt_seq
  %may = call i1 @take_record(i1 true)
  br i1 %may, label %write, label %done
write:
  call void @record_signal(i64 %signal, ptr %info, ptr %context)
  %rip = call i64 @word(ptr %context, i64 $UC_RIP)
  %rsp = call i64 @word(ptr %context, i64 $UC_RSP)
  call void @record(i64 $KIND_interrupted, i64 0, i64 0, i64 %library, i64 %rip, i64 %rsp)
  br label %done
done:
  call void @resume(ptr %context)
  ret void
}

; Make the interrupted context continue in jk_recover, with plain flags.
define internal void @resume(ptr %context) #0 {
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %asking = load atomic i64, ptr $wake_tid seq_cst, align 8
  %asks = icmp eq i64 %asking, %tid
  br i1 %asks, label %give_up, label %go
give_up:
  call void @let_go()
  br label %go
go:
  store volatile i64 0, ptr $running
  %rip_at = getelementptr i8, ptr %context, i64 $UC_RIP
  store i64 ptrtoint (ptr @jk_recover to i64), ptr %rip_at
  %flags_at = getelementptr i8, ptr %context, i64 $UC_EFLAGS
  store i64 $PLAIN_EFLAGS, ptr %flags_at
  %mask_at = getelementptr i8, ptr %context, i64 $UC_SIGMASK
  %mask = load volatile i64, ptr $saved_mask
  store i64 %mask, ptr %mask_at
  call void @unlock_text()
  ret void
}

; Somebody calls for the end of the process (entry.s).  block: rdi rsi rbp rbx r12-r15, return
; address.  1: the cell is over; 0: go on and do it.
define dso_local i32 @jk_note(i64 %status, i64 %cause, ptr %block) #0 {
entry:
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %our_pid = load volatile i64, ptr $pid
  %our_tid = load volatile i64, ptr $tid
  %same = icmp eq i64 %pid, %our_pid
  %mine = icmp eq i64 %tid, %our_tid
  %on = load volatile i64, ptr $running
  %running = icmp ne i64 %on, 0
  %concerns = and i1 %same, %running
  br i1 %concerns, label %take, label %no
no:
  ; outside any call: in the kernel process somebody can still say what nobody defines
  %here = load volatile ptr, ptr $upcall
  %tells = icmp ne ptr %here, null
  %undefined = icmp eq i64 %cause, $CAUSE_undefined
  %told = and i1 %tells, %undefined
  br i1 %told, label %tell, label %go_on
tell:
  %behind = call i64 @word(ptr %block, i64 64)
  %which = sub i64 %behind, 5
  %t = call i64 @jk_up(i64 %which, i32 1, i64 0, i64 0)
  br label %go_on
go_on:
  ret i32 0
take:
  %may = call i1 @take_record(i1 %mine)
  br i1 %may, label %write, label %written
write:
  call void @zero(i64 $r_kind, i64 $RECORD_SIZE)
  %rbp = call i64 @word(ptr %block, i64 16)
  store volatile i64 %rbp, ptr $r_reg_rbp
  %rbx = call i64 @word(ptr %block, i64 24)
  store volatile i64 %rbx, ptr $r_reg_rbx
  %p4 = getelementptr i64, ptr %block, i64 4
  %from = ptrtoint ptr %p4 to i64
  call void @copy(i64 $r_reg_r12, i64 %from, i64 32)
  %return = call i64 @word(ptr %block, i64 64)
  %p9 = getelementptr i64, ptr %block, i64 9
  %is_stub = icmp eq i64 %cause, $CAUSE_undefined
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
  %kind_exit = phi i64 [ $KIND_stub, %stub ], [ $KIND_exit, %plain ]
  ; abort and a smashed stack are faults in the eyes of a user
  %is_abort = icmp eq i64 %cause, $CAUSE_abort
  %is_smashed = icmp eq i64 %cause, $CAUSE_stack_chk_fail
  %is_fault = or i1 %is_abort, %is_smashed
  %kind = select i1 %is_fault, i64 $KIND_fault, i64 %kind_exit
  %signal = select i1 %is_fault, i64 $SIGABRT, i64 0
  %sp = ptrtoint ptr %sp_at to i64
  store volatile i64 %signal, ptr $r_signal
  store volatile i64 %status, ptr $r_status
  store volatile i64 %pc, ptr $r_caller
  store volatile i64 %pc, ptr $r_reg_rip
  store volatile i64 %sp, ptr $r_reg_rsp
  %in_library = icmp eq i64 %cause, $CAUSE_on_exit
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
