; Running session code in the process that asks: no socket, no handlers of signals, no second stack.
; `frame` has the request, as serve.ll gets one: its number, thunk, fn, args, ret.  What ends a cell
; without a signal (entry.s: exit, a symbol that nobody defines) comes back here as from `jk_enter`.
; A callback in Python may call again: what belongs to the call below is kept meanwhile.
; So is `errno` between two calls: what Python does with the library changes it.

declare dso_local i32 @jk_plain(i64, i64, i64, i64)

; 0: returned, 1: stopped, see the record.
define dso_local i64 @jk_here() #0 {
entry:
  %was_running = load volatile i64, ptr $running
  %was_rsp = load volatile i64, ptr $saved_rsp
  %was_seq = load volatile i64, ptr $seq
  %was_tid = load volatile i64, ptr $tid
  store volatile i64 0, ptr $record_taken
  store volatile i64 0, ptr $record_kept
  store volatile i64 0, ptr $progress
  store volatile i64 0, ptr $r_seq
  store volatile i64 0, ptr $lock_owner
  %seq = call i64 @word(ptr $frame, i64 8)
  store volatile i64 %seq, ptr $seq
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  store volatile i64 %tid, ptr $tid
  %thunk = call i64 @word(ptr $frame, i64 16)
  %fn = call i64 @word(ptr $frame, i64 24)
  %args = call i64 @word(ptr $frame, i64 32)
  %ret = call i64 @word(ptr $frame, i64 40)
  %errno_of = load volatile ptr, ptr $libc___errno_location
  %errno = call ptr %errno_of()
  %was_errno = load volatile i32, ptr $errno
  store i32 %was_errno, ptr %errno
  %stopped = call i32 @jk_plain(i64 %thunk, i64 %fn, i64 %args, i64 %ret)
  %is_errno = load i32, ptr %errno
  store volatile i32 %is_errno, ptr $errno
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %ours = load volatile i64, ptr $pid
  %same = icmp eq i64 %pid, %ours
  br i1 %same, label %parent, label %child
child:
  ; the cell has forked: its child ends with the cell, and does not go on in Python
  %fflush = load volatile ptr, ptr $libc_fflush
  %f = call i32 %fflush(ptr null)
  %leave = load volatile ptr, ptr $libc__exit
  call void %leave(i32 0)
  unreachable
parent:
  call void @flush_one(ptr $libc_stdout)
  store volatile i64 %was_running, ptr $running
  store volatile i64 %was_rsp, ptr $saved_rsp
  store volatile i64 %was_seq, ptr $seq
  store volatile i64 %was_tid, ptr $tid
  %answer = zext i32 %stopped to i64
  ret i64 %answer
}

; Call the object `upcall` of Python, on whatever thread: what, of which kind (0: bring back the code
; behind a stub, 1: say what a stub stands for, 2: run a function of Python's on a frame), and where
; its frame is.  The number that it gives.
; Not by a callback of ctypes, whose code may be in memory that is writable and executable.
define dso_local i64 @jk_up(i64 %which, i32 %kind, i64 %at, i64 %size) #0 {
  %ensure = load volatile ptr, ptr $python_PyGILState_Ensure
  %state = call i32 %ensure()
  %format = alloca i64, align 8
  store i64 u0x4B4B694B, ptr %format  ; "KiKK"
  %object = load volatile ptr, ptr $upcall
  %call = load volatile ptr, ptr $python_PyObject_CallFunction
  %r = call ptr (ptr, ptr, ...) %call(ptr %object, ptr %format, i64 %which, i32 %kind, i64 %at, i64 %size)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %nothing, label %something
nothing:
  %clear = load volatile ptr, ptr $python_PyErr_Clear
  call void %clear()
  br label %done
something:
  %number = load volatile ptr, ptr $python_PyLong_AsUnsignedLongLong
  %n = call i64 %number(ptr %r)
  %drop = load volatile ptr, ptr $python_Py_DecRef
  call void %drop(ptr %r)
  br label %done
done:
  %value = phi i64 [ 0, %nothing ], [ %n, %something ]
  %release = load volatile ptr, ptr $python_PyGILState_Release
  call void %release(i32 %state)
  ret i64 %value
}
