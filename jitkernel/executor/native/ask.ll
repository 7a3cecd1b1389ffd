; Code of the program calls a function of Python's: the kernel process is asked to run it.
;
; One thread at a time asks; `ask_lock` has its number.  The request is `ask_number`, not 0, with the
; bytes of the arguments and room for the result in the buffer `ask_frame`; the answer is in that
; buffer, and then `ask_done`, a futex.  Where the function has failed there is no answer for the
; thread that runs cells: it waits to be stopped, as it can be at any instruction here.

declare dso_local void @jk_fail()

define dso_local void @jk_ask(i64 %number, ptr %frame, i64 %size) #0 {
entry:
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %ours = load volatile i64, ptr $pid
  %parent = icmp eq i64 %pid, %ours
  %at = ptrtoint ptr %frame to i64
  br i1 %parent, label %name, label %child
child:  ; of a fork: nobody serves it
  call void @zero(i64 %at, i64 %size)
  ret void
name:
  %here = load volatile ptr, ptr $upcall
  %other = icmp eq ptr %here, null
  br i1 %other, label %who, label %call
call:  ; in the kernel process: where the function fails the call of the session ends there
  %good = call i64 @jk_up(i64 %number, i32 2, i64 %at, i64 %size)
  %failed = icmp eq i64 %good, 0
  br i1 %failed, label %over, label %back
over:
  call void @jk_fail()
  br label %back
back:
  ret void
who:
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tid32 = trunc i64 %tid to i32
  br label %take
take:
  %r = cmpxchg ptr $ask_lock, i32 0, i32 %tid32 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %r, 1
  br i1 %mine, label %request, label %queue
queue:
  %holder = extractvalue { i32, i1 } %r, 0
  %holder64 = zext i32 %holder to i64
  call void @doze(i64 $ask_lock, i64 %holder64)
  br label %take
request:
  call void @copy(i64 $ask_frame, i64 %at, i64 %size)
  store volatile i64 %size, ptr $ask_size
  store atomic i32 0, ptr $ask_done seq_cst, align 4
  store atomic i64 %number, ptr $ask_number seq_cst, align 8
  call void @tell(i64 $ASK)
  br label %wait
wait:
  %done = load atomic i32, ptr $ask_done seq_cst, align 4
  %ready = icmp ne i32 %done, 0
  br i1 %ready, label %answered, label %sleep
sleep:
  call void @doze(i64 $ask_done, i64 0)
  br label %wait
answered:
  call void @copy(i64 %at, i64 $ask_frame, i64 %size)
  store atomic i64 0, ptr $ask_number seq_cst, align 8
  store atomic i32 0, ptr $ask_lock seq_cst, align 4
  %w = call i64 @sys(i64 $SYS_futex, i64 $ask_lock, i64 $FUTEX_WAKE, i64 1, i64 0, i64 0, i64 0)
  ret void
}
