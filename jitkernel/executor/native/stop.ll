; A debugger stops threads: the one that meets a trap stands in the signal handler until the kernel
; process answers (stops.py), and every other thread meanwhile.  At most breakpoints it need not
; ask: decide.ll.
;
; `stop_on` is 1 while traps are a debugger's.  One thread at a time has stopped, and asks: it has
; `stop_lock`; others that meet a trap queue for that.  The request is `stop_pending` with the words
; that follow; `stop_standing` has its number, and while it has one, threads that SIGINTERRUPT meets
; stand by.  The answer is `stop_answer` and then `stop_done`, a futex.  A message on the socket says
; that there is a request.  `stop_threads` says who stands, and where what a thread goes on with is
; (abi.py).
;
; Traps are told by si_code: trapno of a signal that somebody sent is that of the last trap.

; Whether the instruction in front of the program counter was an int3 that is gone: a thread met it
; just before.  Then the thread is set back, to run what is there now.
define internal i1 @removed(ptr %context) #0 {
  %rip = call i64 @word(ptr %context, i64 $UC_RIP)
  %at = sub i64 %rip, 1
  %start = load volatile i64, ptr $text_start
  %stop = load volatile i64, ptr $text_stop
  %size = sub i64 %stop, %start
  %offset = sub i64 %at, %start
  %in_text = icmp ult i64 %offset, %size
  br i1 %in_text, label %look, label %no
look:
  %byte_at = inttoptr i64 %at to ptr
  %byte = load volatile i8, ptr %byte_at
  %is_int3 = icmp eq i8 %byte, $INT3
  br i1 %is_int3, label %no, label %long
long:  ; the form of two bytes
  %first_at = getelementptr i8, ptr %byte_at, i64 -1
  %first = load volatile i8, ptr %first_at
  %is_int = icmp eq i8 %first, $INT
  %is_3 = icmp eq i8 %byte, 3
  %both = and i1 %is_int, %is_3
  br i1 %both, label %no, label %back
back:
  %rip_at = getelementptr i8, ptr %context, i64 $UC_RIP
  store i64 %at, ptr %rip_at
  ret i1 1
no:
  ret i1 0
}

; Where a thread goes on that has met the breakpoint at an address; 0 where none is known.
define internal i64 @slot_of(i64 %address) #0 {
  %row = call i64 @row_of(i64 %address)
  %slot = and i64 %row, $STOP_SLOT
  ret i64 %slot
}

; The slot of the breakpoint at an address, with the place of its program (decide.ll) above it; 0
; where none is known.  The table is one of two, sorted pairs: `stop_table` has its place in the
; upper half, the number of pairs in the lowest 16 bits, and a number of its own between, so that it
; is replaced by one store and told from others.
define internal i64 @row_of(i64 %address) #0 {
entry:
  %table = load atomic i64, ptr $stop_table seq_cst, align 8
  %place = lshr i64 %table, 32
  %count = and i64 %table, $STOP_COUNT
  %start = getelementptr i8, ptr $stop_tables, i64 %place
  br label %loop
loop:
  %low = phi i64 [ 0, %entry ], [ %low, %below ], [ %next, %above ]
  %high = phi i64 [ %count, %entry ], [ %middle, %below ], [ %high, %above ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %look, label %none
look:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %index = shl i64 %middle, 1
  %at = getelementptr i64, ptr %start, i64 %index
  %found = load volatile i64, ptr %at
  %same = icmp eq i64 %found, %address
  br i1 %same, label %here, label %order
order:
  %before = icmp ult i64 %address, %found
  br i1 %before, label %below, label %above
below:
  br label %loop
above:
  %next = add i64 %middle, 1
  br label %loop
here:
  %slot_at = getelementptr i64, ptr %at, i64 1
  %slot = load volatile i64, ptr %slot_at
  ret i64 %slot
none:
  ret i64 0
}

; Whether a thread that has met an int3 goes on without asking: then it does so by the copy.
define internal i1 @passes(ptr %context, i1 %counts) #0 {
  %rip = call i64 @word(ptr %context, i64 $UC_RIP)
  %at = sub i64 %rip, 1
  %slot = call i64 @decide(i64 %at, ptr %context, i1 %counts)
  %asks = icmp eq i64 %slot, 0
  br i1 %asks, label %no, label %yes
yes:
  %rip_at = getelementptr i8, ptr %context, i64 $UC_RIP
  store i64 %slot, ptr %rip_at
  ret i1 1
no:
  ret i1 0
}

; Go on without asking: GO, or OWN for what is no debugger's.
define internal i64 @pass(i32 %code, ptr %context) #0 {
  switch i32 %code, label %own [ i32 $SI_KERNEL, label %int3
                                 i32 $TRAP_TRACE, label %step
                                 i32 $TRAP_HWBKPT, label %go
                                 i32 $TRAP_PERF, label %go ]
int3:
  %gone = call i1 @removed(ptr %context)
  br i1 %gone, label %go, label %find
find:
  %rip = call i64 @word(ptr %context, i64 $UC_RIP)
  %at = sub i64 %rip, 1
  %slot = call i64 @slot_of(i64 %at)
  %unknown = icmp eq i64 %slot, 0
  br i1 %unknown, label %own, label %jump
jump:
  %rip_at = getelementptr i8, ptr %context, i64 $UC_RIP
  store i64 %slot, ptr %rip_at
  ret i64 $GO
step:
  %flags_at = getelementptr i8, ptr %context, i64 $UC_EFLAGS
  %flags = load i64, ptr %flags_at
  %plain = and i64 %flags, $NO_TRAP_FLAG
  store i64 %plain, ptr %flags_at
  ret i64 $GO
go:
  ret i64 $GO
own:
  ret i64 $OWN
}

; A trap: GO where the thread goes on, END where its cell is to end, OWN where it is the program's.
define internal i64 @trap(ptr %info, ptr %context) #0 {
entry:
  %code_at = getelementptr i8, ptr %info, i64 $SI_CODE
  %code = load i32, ptr %code_at
  %is_int3 = icmp eq i32 %code, $SI_KERNEL
  br i1 %is_int3, label %look, label %known
look:
  %gone = call i1 @removed(ptr %context)
  br i1 %gone, label %go, label %known
known:
  %on = load volatile i64, ptr $stop_on
  %off = icmp eq i64 %on, 0
  %sent = icmp sle i32 %code, 0
  %no = or i1 %off, %sent
  br i1 %no, label %stray, label %whose
stray:  ; a watchpoint that was met just before it went
  %late = icmp sge i32 %code, $TRAP_HWBKPT
  %is_late = icmp sle i32 %code, $TRAP_PERF
  %gone_watch = and i1 %late, %is_late
  br i1 %gone_watch, label %go, label %own
whose:  ; nobody serves a forked child, nor threads after their call
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %our_pid = load volatile i64, ptr $pid
  %same = icmp eq i64 %pid, %our_pid
  %running = load volatile i64, ptr $running
  %runs = icmp ne i64 %running, 0
  %served = and i1 %same, %runs
  br i1 %served, label %matters, label %pass
matters:
  br i1 %is_int3, label %try, label %ask
try:
  %passes = call i1 @passes(ptr %context, i1 false)
  br i1 %passes, label %go, label %ask
ask:
  %is_step = icmp eq i32 %code, $TRAP_TRACE
  %watches = icmp sge i32 %code, $TRAP_HWBKPT
  %watched = xor i1 %is_int3, %watches
  %trap_or_watch = select i1 %watched, i64 $WHY_watch, i64 $WHY_trap
  %why = select i1 %is_step, i64 $WHY_step, i64 %trap_or_watch
  %answer = call i64 @stand(i64 %why, i64 $SIGTRAP, ptr %info, ptr %context)
  switch i64 %answer, label %told [ i64 $PASS, label %pass
                                    i64 $END, label %end ]
told:
  ret i64 %answer
end:  ; only the thread of the cell ends it
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %our_tid = load volatile i64, ptr $tid
  %mine = icmp eq i64 %tid, %our_tid
  br i1 %mine, label %back, label %pass
back:
  %length = zext i1 %is_int3 to i64
  %now = call i64 @word(ptr %context, i64 $UC_RIP)
  %instruction = sub i64 %now, %length
  %rip_at = getelementptr i8, ptr %context, i64 $UC_RIP
  store i64 %instruction, ptr %rip_at
  ret i64 $END
pass:
  %passed = call i64 @pass(i32 %code, ptr %context)
  ret i64 %passed
go:
  ret i64 $GO
own:
  ret i64 $OWN
}

; Stand until the kernel process has answered; the answer.
define internal i64 @stand(i64 %why, i64 %signal, ptr %info, ptr %context) #0 {
entry:
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tid32 = trunc i64 %tid to i32
  %c = ptrtoint ptr %context to i64
  %saved = add i64 %c, $UC_REGISTERS
  %row = call ptr @enlist(i64 %tid, i64 %c, i64 $EVERY_STOP)
  br label %take
take:
  %r = cmpxchg ptr $stop_lock, i32 0, i32 %tid32 seq_cst seq_cst
  %taken = extractvalue { i32, i1 } %r, 1
  br i1 %taken, label %still, label %queue
queue:
  %holder = extractvalue { i32, i1 } %r, 0
  %holder64 = zext i32 %holder to i64
  call void @doze(i64 $stop_lock, i64 %holder64)
  br label %take
still:  ; much may have happened while it queued
  %is_trap = icmp eq i64 %why, $WHY_trap
  br i1 %is_trap, label %look, label %wanted
look:
  %gone = call i1 @removed(ptr %context)
  br i1 %gone, label %leave, label %wanted
wanted:
  %on = load volatile i64, ptr $stop_on
  %running = load volatile i64, ptr $running
  %is_on = icmp ne i64 %on, 0
  %runs = icmp ne i64 %running, 0
  %asks = and i1 %is_on, %runs
  br i1 %asks, label %matters, label %leave
matters:
  br i1 %is_trap, label %try, label %ask
try:
  %passes = call i1 @passes(ptr %context, i1 true)
  br i1 %passes, label %leave, label %ask
ask:
  %code_at = getelementptr i8, ptr %info, i64 $SI_CODE
  %code32 = load i32, ptr %code_at
  %code = sext i32 %code32 to i64
  %address = call i64 @word(ptr %info, i64 $SI_ADDR)
  store volatile i64 %why, ptr $stop_why
  store volatile i64 %tid, ptr $stop_tid
  store volatile i64 %signal, ptr $stop_signal
  store volatile i64 %code, ptr $stop_code
  store volatile i64 %address, ptr $stop_address
  store volatile i64 %c, ptr $stop_context
  call void @copy(i64 $stop_reg_r8, i64 %saved, i64 $UC_REGISTERS_SIZE)
  store atomic i32 0, ptr $stop_done seq_cst, align 4
  %last = load volatile i64, ptr $stop_number
  %number = add i64 %last, 1
  store volatile i64 %number, ptr $stop_number
  store atomic i64 %number, ptr $stop_standing seq_cst, align 8
  store atomic i64 1, ptr $stop_pending seq_cst, align 8
  call void @tell(i64 $STOP)
  br label %wait
wait:
  %done = load atomic i32, ptr $stop_done seq_cst, align 4
  %ready = icmp ne i32 %done, 0
  br i1 %ready, label %answered, label %sleep
sleep:
  call void @doze(i64 $stop_done, i64 0)
  br label %wait
answered:
  %given = load volatile i64, ptr $stop_answer
  call void @copy(i64 %saved, i64 $stop_reg_r8, i64 $UC_REGISTERS_SIZE)
  br label %leave
leave:
  %answer = phi i64 [ $GO, %look ], [ $PASS, %wanted ], [ $GO, %try ], [ %given, %answered ]
  call void @delist(ptr %row)
  store atomic i32 0, ptr $stop_lock seq_cst, align 4
  %w = call i64 @sys(i64 $SYS_futex, i64 $stop_lock, i64 $FUTEX_WAKE, i64 1, i64 0, i64 0, i64 0)
  ret i64 %answer
}

; Another thread has stopped: stand as long as it does.  The thread that has been told to go on is
; still there when the next stop comes: it says which one it stands for, so that nobody believes that
; it stands while it leaves.
define internal void @stand_by(i64 %first, ptr %context) #0 {
entry:
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %c = ptrtoint ptr %context to i64
  %row = call ptr @enlist(i64 %tid, i64 %c, i64 %first)
  %unlisted = icmp eq ptr %row, null
  br label %wait
wait:
  %number = load atomic i64, ptr $stop_standing seq_cst, align 8
  %over = icmp eq i64 %number, 0
  br i1 %over, label %leave, label %stay
stay:
  br i1 %unlisted, label %sleep, label %say
say:
  %number_at = getelementptr i64, ptr %row, i64 2
  store atomic i64 %number, ptr %number_at seq_cst, align 8
  br label %sleep
sleep:
  call void @doze(i64 $stop_standing, i64 %number)
  br label %wait
leave:
  call void @delist(ptr %row)
  ret void
}

; Say that a thread stands, in the first row that is free: null where none is.
define internal ptr @enlist(i64 %tid, i64 %context, i64 %number) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %busy ]
  %more = icmp ult i64 %i, $STOP_THREADS
  br i1 %more, label %try, label %none
try:
  %words = shl i64 %i, 2
  %at = getelementptr i64, ptr $stop_threads, i64 %words
  %r = cmpxchg ptr %at, i64 0, i64 %tid seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %r, 1
  br i1 %mine, label %write, label %busy
busy:
  %next = add i64 %i, 1
  br label %loop
write:
  %rows = add i64 %i, 1
  %most = atomicrmw umax ptr $stop_listed, i64 %rows seq_cst
  %context_at = getelementptr i64, ptr %at, i64 1
  store atomic i64 %context, ptr %context_at seq_cst, align 8
  %number_at = getelementptr i64, ptr %at, i64 2
  store atomic i64 %number, ptr %number_at seq_cst, align 8
  ret ptr %at
none:
  ret ptr null
}

define internal void @delist(ptr %row) #0 {
  %none = icmp eq ptr %row, null
  br i1 %none, label %done, label %clear
clear:
  %number_at = getelementptr i64, ptr %row, i64 2
  store atomic i64 0, ptr %number_at seq_cst, align 8
  store atomic i64 0, ptr %row seq_cst, align 8
  br label %done
done:
  ret void
}

; What the program does with signals.  The system ends a process that meets an int3 while the thread
; blocks SIGTRAP, and gives every trap to one handler: so while a debugger is there, no thread blocks
; the signals of stops, and the program's handler of SIGTRAP is kept in `trap_handler` and called
; from ours.  Everything else is the library's.

define dso_local i32 @jk_sigprocmask(i32 %how, ptr %set, ptr %old) #0 {
  %real = load volatile ptr, ptr $libc_sigprocmask
  %r = call i32 %real(i32 %how, ptr %set, ptr %old)
  call void @let_stop()
  ret i32 %r
}

define dso_local i32 @jk_pthread_sigmask(i32 %how, ptr %set, ptr %old) #0 {
  %real = load volatile ptr, ptr $libc_pthread_sigmask
  %r = call i32 %real(i32 %how, ptr %set, ptr %old)
  call void @let_stop()
  ret i32 %r
}

define internal void @let_stop() #0 {
  %on = load volatile i64, ptr $stop_on
  %off = icmp eq i64 %on, 0
  br i1 %off, label %done, label %unblock
unblock:
  %was = call i64 @mask_signals(i64 $SIG_UNBLOCK, i64 $STOP_SIGNALS)
  br label %done
done:
  ret void
}

define dso_local i32 @jk_sigaction(i32 %signal, ptr %new, ptr %old) #0 {
  %real = load volatile ptr, ptr $libc_sigaction
  %on = load volatile i64, ptr $stop_on
  %off = icmp eq i64 %on, 0
  %reads = icmp eq ptr %new, null
  %is_trap = icmp eq i32 %signal, $SIGTRAP
  %is_ours = xor i1 %off, true
  %kept = and i1 %is_trap, %is_ours
  br i1 %kept, label %keep, label %plain
plain:
  %as_is = or i1 %off, %reads
  br i1 %as_is, label %pass, label %changed
pass:
  %r1 = call i32 %real(i32 %signal, ptr %new, ptr %old)
  ret i32 %r1
changed:
  %copy = alloca [19 x i64], align 8
  %to = ptrtoint ptr %copy to i64
  %from = ptrtoint ptr %new to i64
  call void @copy(i64 %to, i64 %from, i64 $SIGACTION_SIZE)
  %mask_at = getelementptr i8, ptr %copy, i64 $SA_MASK
  %mask = load i64, ptr %mask_at
  %open = and i64 %mask, $NO_STOP_SIGNALS
  store i64 %open, ptr %mask_at
  %r2 = call i32 %real(i32 %signal, ptr %copy, ptr %old)
  ret i32 %r2
keep:
  %last_handler = load volatile i64, ptr $trap_handler
  %last_mask = load volatile i64, ptr $trap_mask
  %last_flags = load volatile i64, ptr $trap_flags
  br i1 %reads, label %report, label %set
set:
  %handler = load i64, ptr %new
  %new_mask = call i64 @word(ptr %new, i64 $SA_MASK)
  %flags_at = getelementptr i8, ptr %new, i64 $SA_FLAGS_AT
  %flags = load i32, ptr %flags_at
  %flags64 = zext i32 %flags to i64
  store volatile i64 %new_mask, ptr $trap_mask
  store volatile i64 %flags64, ptr $trap_flags
  store volatile i64 %handler, ptr $trap_handler
  br label %report
report:
  %silent = icmp eq ptr %old, null
  br i1 %silent, label %done, label %write
write:
  %o = ptrtoint ptr %old to i64
  call void @zero(i64 %o, i64 $SIGACTION_SIZE)
  store i64 %last_handler, ptr %old
  %old_mask = getelementptr i8, ptr %old, i64 $SA_MASK
  store i64 %last_mask, ptr %old_mask
  %old_flags = getelementptr i8, ptr %old, i64 $SA_FLAGS_AT
  %last_flags32 = trunc i64 %last_flags to i32
  store i32 %last_flags32, ptr %old_flags
  br label %done
done:
  ret i32 0
}

define dso_local ptr @jk_signal(i32 %signal, ptr %handler) #0 {
  %on = load volatile i64, ptr $stop_on
  %is_on = icmp ne i64 %on, 0
  %is_trap = icmp eq i32 %signal, $SIGTRAP
  %kept = and i1 %is_on, %is_trap
  br i1 %kept, label %keep, label %plain
plain:
  %real = load volatile ptr, ptr $libc_signal
  %r = call ptr %real(i32 %signal, ptr %handler)
  ret ptr %r
keep:
  %last = load volatile ptr, ptr $trap_handler
  store volatile i64 0, ptr $trap_mask
  store volatile i64 0, ptr $trap_flags
  store volatile ptr %handler, ptr $trap_handler
  ret ptr %last
}

; A trap of the program's own: whether its handler has dealt with it.
define internal i1 @handled(i32 %signal, ptr %info, ptr %context) #0 {
  %handler = load volatile ptr, ptr $trap_handler
  %word = ptrtoint ptr %handler to i64
  %default = icmp eq i64 %word, $SIG_DFL
  br i1 %default, label %no, label %some
some:
  %ignores = icmp eq i64 %word, $SIG_IGN
  br i1 %ignores, label %ignored, label %call
ignored:  ; only what somebody has sent can be
  %code_at = getelementptr i8, ptr %info, i64 $SI_CODE
  %code = load i32, ptr %code_at
  %sent = icmp sle i32 %code, 0
  ret i1 %sent
call:
  %flags = load volatile i64, ptr $trap_flags
  %once = and i64 %flags, $SA_RESETHAND
  %stays = icmp eq i64 %once, 0
  br i1 %stays, label %run, label %reset
reset:
  store volatile i64 0, ptr $trap_handler
  br label %run
run:
  %its = load volatile i64, ptr $trap_mask
  %blocked = call i64 @word(ptr %context, i64 $UC_SIGMASK)
  %both = or i64 %its, %blocked
  %mask = and i64 %both, $NO_STOP_SIGNALS
  %was = call i64 @mask_signals(i64 $SIG_SETMASK, i64 %mask)
  call void %handler(i32 %signal, ptr %info, ptr %context)
  %all = call i64 @mask_signals(i64 $SIG_SETMASK, i64 $ALL_SIGNALS)
  ret i1 1
no:
  ret i1 0
}
