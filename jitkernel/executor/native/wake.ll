; A call has reached code that is not in memory: the kernel process is asked to bring it back
; (entry.s saves every register before, and jumps to the code after).
;
; One thread at a time asks, whichever it is; the text zone is closed meanwhile, so that other
; threads wait at their next instruction of session code.  The request is the control word
; `wake_stub`, beside it `wake_alone`: whether nobody else can be running session code.  The answer
; is `wake_target` and then `wake_done`, a futex.  A message on the socket says that there is a
; request; where the cell has closed it the kernel process finds it by looking.
;
; Where the process that runs the code is the kernel process (inline.ll), `upcall` is a function of
; Python's that brings the code back, or says what nobody defines.

; The address of the code behind a stub, 0 where it cannot come back.
define dso_local i64 @jk_fetch(i64 %stub) #0 {
entry:
  %here = load volatile ptr, ptr $upcall
  %other = icmp eq ptr %here, null
  br i1 %other, label %ask, label %call
call:
  %found = call i64 @jk_up(i64 %stub, i32 0, i64 0, i64 0)
  ret i64 %found
ask:
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %mask = call i64 @mask_signals(i64 $SIG_BLOCK, i64 $OTHER_SIGNALS)
  call void @take_turn()
  store atomic i64 %tid, ptr $wake_tid seq_cst, align 8
  %single = call i1 @single()
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %ours = load volatile i64, ptr $pid
  %parent = icmp eq i64 %pid, %ours  ; a forked child's goes on
  %alone = and i1 %single, %parent
  %alone64 = zext i1 %alone to i64
  store volatile i64 %alone64, ptr $wake_alone
  br i1 %single, label %request, label %close
close:
  call void @lock_text()
  br label %request
request:
  store volatile i64 0, ptr $wake_target
  store atomic i32 0, ptr $wake_done seq_cst, align 4
  store atomic i64 %stub, ptr $wake_stub seq_cst, align 8
  call void @tell(i64 $WAKE)
  br label %wait
wait:
  %done = load atomic i32, ptr $wake_done seq_cst, align 4
  %ready = icmp ne i32 %done, 0
  br i1 %ready, label %answered, label %sleep
sleep:
  call void @doze(i64 $wake_done, i64 0)
  br label %wait
answered:
  %target = load volatile i64, ptr $wake_target
  call void @jk_renew_unwind()
  call void @let_go()
  %now = call i64 @mask_signals(i64 $SIG_SETMASK, i64 %mask)
  ret i64 %target
}

; One thread at a time asks for code.
define internal void @take_turn() #0 {
  br label %take
take:
  %r = cmpxchg ptr $wake_lock, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %r, 1
  br i1 %mine, label %done, label %queue
queue:
  call void @doze(i64 $wake_lock, i64 1)
  br label %take
done:
  ret void
}

define internal void @end_turn() #0 {
  store atomic i32 0, ptr $wake_lock seq_cst, align 4
  %r = call i64 @sys(i64 $SYS_futex, i64 $wake_lock, i64 $FUTEX_WAKE, i64 1, i64 0, i64 0, i64 0)
  ret void
}

; Whether the program has no threads of its own; only where it has, or code that has changed would
; run as it was, is the text zone closed: for a large zone that takes longer than all the rest.  A
; folder's link count tells of each folder in it, one a thread.  ("/proc/self/task", struct stat:
; links at 16)
define internal i1 @single() #0 {
  %path = alloca [2 x i64], align 8
  store i64 u0x65732F636F72702F, ptr %path
  %rest = getelementptr i64, ptr %path, i64 1
  store i64 u0x006B7361742F666C, ptr %rest
  %stat = alloca [18 x i64], align 8
  %links_at = getelementptr i64, ptr %stat, i64 2
  store volatile i64 -1, ptr %links_at
  %p = ptrtoint ptr %path to i64
  %s = ptrtoint ptr %stat to i64
  %r = call i64 @sys(i64 $SYS_newfstatat, i64 $AT_FDCWD, i64 %p, i64 %s, i64 0, i64 0, i64 0)
  %links = load volatile i64, ptr %links_at
  %own = load volatile i64, ptr $own_links
  %few = icmp ule i64 %links, %own
  %stale = load volatile i64, ptr $text_stale
  %current = icmp eq i64 %stale, 0
  %single = and i1 %few, %current
  ret i1 %single
}

; The thread that asked goes on, or is taken out of its cell.
define internal void @let_go() #0 {
  store volatile i64 0, ptr $wake_stub
  store atomic i64 0, ptr $wake_tid seq_cst, align 8
  call void @unlock_text()
  call void @end_turn()
  ret void
}

; Wait while the 32-bit word at an address has a value, but look again after 5 ms.  Not a private
; futex: the kernel process wakes it.
define internal void @doze(i64 %word, i64 %value) #0 {
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time
  %nanoseconds = getelementptr i64, ptr %time, i64 1
  store i64 5000000, ptr %nanoseconds
  %t = ptrtoint ptr %time to i64
  %r = call i64 @sys(i64 $SYS_futex, i64 %word, i64 $FUTEX_WAIT, i64 %value, i64 %t, i64 0, i64 0)
  ret void
}

; Say on the socket, if it is still there, that there is a request.  Its sequence number is that of
; no request, so that it is not taken for an answer.
define internal void @tell(i64 %op) #0 {
  %socket = load volatile i64, ptr $socket
  %inode = call i64 @inode(i64 %socket)
  %expected = load volatile i64, ptr $socket_inode
  %good = icmp eq i64 %inode, %expected
  br i1 %good, label %send, label %done
send:
  %frame = alloca [8 x i64], align 8
  %at = ptrtoint ptr %frame to i64
  call void @zero(i64 %at, i64 $HEAD_SIZE)
  store i64 %op, ptr %frame
  %r = call i64 @sys(i64 $SYS_sendto, i64 %socket, i64 %at, i64 $HEAD_SIZE, i64 $MSG_NOSIGNAL_DONTWAIT, i64 0, i64 0)
  br label %done
done:
  ret void
}
