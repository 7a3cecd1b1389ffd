; Whether a breakpoint concerns anybody: its condition, as a program that the kernel process wrote
; (executor/programs.py), is run by the thread that has met it.  Who cannot tell asks.
;
; A word is an instruction: its number in the lowest 8 bits, a signed operand above.  The stack has
; words, a number with a point as a double.  Jumps only go forward, and the stack's index wraps:
; also a program that somebody writes to meanwhile ends.

; Where a thread goes on that need not ask at a breakpoint; 0 where it has to.  Hits are counted by
; the one that has `stop_lock` alone: `counts`.
define internal i64 @decide(i64 %address, ptr %context, i1 %counts) #2 {
entry:
  %stack = alloca [32 x i64], align 8
  %vectors = alloca [4 x i64], align 8
  %before = load atomic i64, ptr $stop_table seq_cst, align 8
  %row = call i64 @row_of(i64 %address)
  %first = lshr i64 %row, $STOP_PROGRAM
  %slot = and i64 %row, $STOP_SLOT
  %none = icmp eq i64 %first, 0
  br i1 %none, label %ask, label %loop

loop:
  %at = phi i64 [ %first, %entry ], [ %following, %push ], [ %following, %unary ],
                [ %following, %binary ], [ %behind_word, %word ], [ %following, %drop ],
                [ %led, %jump_if ], [ %led_on, %jump ]
  %depth = phi i64 [ 0, %entry ], [ %deeper, %push ], [ %depth, %unary ], [ %lower, %binary ],
                   [ %deeper, %word ], [ %lower, %drop ], [ %lower, %jump_if ], [ %depth, %jump ]
  %cell = phi i64 [ 0, %entry ], [ %counted, %push ], [ %cell, %unary ], [ %cell, %binary ],
                  [ %cell, %word ], [ %cell, %drop ], [ %cell, %jump_if ], [ %cell, %jump ]
  %inside = icmp ult i64 %at, $STOP_PROGRAM_WORDS
  br i1 %inside, label %fetch, label %ask
fetch:
  %code_at = getelementptr i64, ptr $stop_programs, i64 %at
  %code = load volatile i64, ptr %code_at
  %following = add i64 %at, 1
  %op = and i64 %code, 255
  %operand = ashr i64 %code, 8
  %deeper = add i64 %depth, 1
  %lower = sub i64 %depth, 1
  %lowest = sub i64 %depth, 2
  %top_index = and i64 %lower, 31
  %second_index = and i64 %lowest, 31
  %new_index = and i64 %depth, 31
  %top_at = getelementptr i64, ptr %stack, i64 %top_index
  %second_at = getelementptr i64, ptr %stack, i64 %second_index
  %new_at = getelementptr i64, ptr %stack, i64 %new_index
  %b = load i64, ptr %top_at
  %a = load i64, ptr %second_at
  %fb = bitcast i64 %b to double
  %fa = bitcast i64 %a to double
  %rest = sub i64 64, %operand
  %unused = and i64 %rest, 63
  switch i64 %op, label %ask [ i64 $DO_end, label %end
                               i64 $DO_word, label %word
                               i64 $DO_push, label %push
                               i64 $DO_register, label %register
                               i64 $DO_hits, label %hits
                               i64 $DO_copy, label %copy
                               i64 $DO_drop, label %drop
                               i64 $DO_skip, label %jump
                               i64 $DO_skip_if_not, label %jump_if
                               i64 $DO_load, label %load
                               i64 $DO_signed, label %signed
                               i64 $DO_unsigned, label %unsigned
                               i64 $DO_swap, label %swap
                               i64 $DO_add, label %add
                               i64 $DO_sub, label %sub
                               i64 $DO_mul, label %mul
                               i64 $DO_and, label %and
                               i64 $DO_or, label %or
                               i64 $DO_xor, label %xor
                               i64 $DO_div, label %div
                               i64 $DO_rem, label %rem
                               i64 $DO_udiv, label %udiv
                               i64 $DO_urem, label %urem
                               i64 $DO_left, label %shift
                               i64 $DO_right, label %shift
                               i64 $DO_uright, label %shift
                               i64 $DO_eq, label %eq
                               i64 $DO_ne, label %ne
                               i64 $DO_lt, label %lt
                               i64 $DO_le, label %le
                               i64 $DO_ult, label %ult
                               i64 $DO_ule, label %ule
                               i64 $DO_fadd, label %fadd
                               i64 $DO_fsub, label %fsub
                               i64 $DO_fmul, label %fmul
                               i64 $DO_fdiv, label %fdiv
                               i64 $DO_feq, label %feq
                               i64 $DO_fne, label %fne
                               i64 $DO_flt, label %flt
                               i64 $DO_fle, label %fle
                               i64 $DO_real, label %real
                               i64 $DO_ureal, label %ureal
                               i64 $DO_single, label %single
                               i64 $DO_usingle, label %usingle
                               i64 $DO_widen, label %widen
                               i64 $DO_round, label %round
                               i64 $DO_whole, label %whole ]

word:
  %word_at = getelementptr i64, ptr $stop_programs, i64 %following
  %constant = load volatile i64, ptr %word_at
  store i64 %constant, ptr %new_at
  %behind_word = add i64 %at, 2
  br label %loop
register:
  %from = and i64 %operand, 255
  %value = call i64 @word(ptr %context, i64 %from)
  br label %push
hits:
  br i1 %counts, label %look_at, label %ask
look_at:
  %cell_index = and i64 %operand, $STOP_LAST_CELL
  %cell_at = getelementptr i64, ptr $stop_programs, i64 %cell_index
  %had = load volatile i64, ptr %cell_at
  %has = add i64 %had, 1
  br label %push
copy:
  br label %push
push:
  %new = phi i64 [ %operand, %fetch ], [ %value, %register ], [ %has, %look_at ], [ %b, %copy ]
  %counted = phi i64 [ %cell, %fetch ], [ %cell, %register ], [ %cell, %copy ],
                      [ %cell_index, %look_at ]
  store i64 %new, ptr %new_at
  br label %loop
drop:
  br label %loop
jump:
  %far = and i64 %operand, $STOP_PROGRAM_LIMIT
  %led_on = add i64 %following, %far
  br label %loop
jump_if:
  %holds = icmp ne i64 %b, 0
  %skipped = and i64 %operand, $STOP_PROGRAM_LIMIT
  %distance = select i1 %holds, i64 0, i64 %skipped
  %led = add i64 %following, %distance
  br label %loop

load:  ; what cannot be read here may be no memory
  %sizes = and i64 %operand, 15
  %small = icmp ule i64 %sizes, 8
  br i1 %small, label %read, label %ask
read:
  %to_size_at = getelementptr i64, ptr %vectors, i64 1
  %from_at = getelementptr i64, ptr %vectors, i64 2
  %from_size_at = getelementptr i64, ptr %vectors, i64 3
  %top_word = ptrtoint ptr %top_at to i64
  store i64 %top_word, ptr %vectors
  store i64 %sizes, ptr %to_size_at
  store i64 %b, ptr %from_at
  store i64 %sizes, ptr %from_size_at
  store i64 0, ptr %top_at
  %to = ptrtoint ptr %vectors to i64
  %from_vector = ptrtoint ptr %from_at to i64
  %process = load volatile i64, ptr $pid
  %got = call i64 @sys(i64 $SYS_process_vm_readv, i64 %process, i64 %to, i64 1, i64 %from_vector, i64 1, i64 0)
  %all = icmp eq i64 %got, %sizes
  %loaded = load volatile i64, ptr %top_at
  br i1 %all, label %unary, label %ask
signed:
  %left_aligned = shl i64 %b, %unused
  %extended = ashr i64 %left_aligned, %unused
  br label %unary
unsigned:
  %upper_gone = shl i64 %b, %unused
  %narrowed = lshr i64 %upper_gone, %unused
  br label %unary
real:
  %as_real = sitofp i64 %b to double
  %real_bits = bitcast double %as_real to i64
  br label %unary
ureal:  ; one of 64 bits by halves, the bit that is lost kept for the rounding
  %large = icmp slt i64 %b, 0
  %half = lshr i64 %b, 1
  %odd = and i64 %b, 1
  %sticky = or i64 %half, %odd
  %fits = select i1 %large, i64 %sticky, i64 %b
  %half_real = sitofp i64 %fits to double
  %twice = call double asm "addsd $0, $0", "=x,0"(double %half_real)
  %as_ureal = select i1 %large, double %twice, double %half_real
  %ureal_bits = bitcast double %as_ureal to i64
  br label %unary
single:
  %as_single = sitofp i64 %b to float
  %single_real = fpext float %as_single to double
  %single_bits = bitcast double %single_real to i64
  br label %unary
usingle:
  %large2 = icmp slt i64 %b, 0
  %half2 = lshr i64 %b, 1
  %odd2 = and i64 %b, 1
  %sticky2 = or i64 %half2, %odd2
  %fits2 = select i1 %large2, i64 %sticky2, i64 %b
  %half_single = sitofp i64 %fits2 to float
  %twice2 = call float asm "addss $0, $0", "=x,0"(float %half_single)
  %as_usingle = select i1 %large2, float %twice2, float %half_single
  %usingle_real = fpext float %as_usingle to double
  %usingle_bits = bitcast double %usingle_real to i64
  br label %unary
widen:
  %bits32 = trunc i64 %b to i32
  %float = bitcast i32 %bits32 to float
  %widened = fpext float %float to double
  %widened_bits = bitcast double %widened to i64
  br label %unary
round:
  %near = fptrunc double %fb to float
  %rounded = fpext float %near to double
  %rounded_bits = bitcast double %rounded to i64
  br label %unary
whole:  ; what it makes of all that is out of range is told by somebody else
  %integer = call i64 asm "cvttsd2si $1, $0", "=r,x"(double %fb)
  %lost = icmp eq i64 %integer, $INT64_MIN
  br i1 %lost, label %ask, label %unary
unary:
  %result = phi i64 [ %loaded, %read ], [ %extended, %signed ], [ %narrowed, %unsigned ],
                    [ %real_bits, %real ], [ %ureal_bits, %ureal ], [ %single_bits, %single ],
                    [ %usingle_bits, %usingle ], [ %widened_bits, %widen ],
                    [ %rounded_bits, %round ], [ %integer, %whole ], [ %a, %swap ]
  store i64 %result, ptr %top_at
  br label %loop
swap:
  store i64 %b, ptr %second_at
  br label %unary

add:
  %sum = add i64 %a, %b
  br label %binary
sub:
  %difference = sub i64 %a, %b
  br label %binary
mul:
  %product = mul i64 %a, %b
  br label %binary
and:
  %both = and i64 %a, %b
  br label %binary
or:
  %either = or i64 %a, %b
  br label %binary
xor:
  %one = xor i64 %a, %b
  br label %binary
div:
  switch i64 %b, label %divide [ i64 0, label %ask
                                 i64 -1, label %negate ]
divide:
  %quotient = sdiv i64 %a, %b
  br label %binary
negate:  ; the processor has no quotient of the lowest number
  %negative = sub i64 0, %a
  br label %binary
rem:
  switch i64 %b, label %remain [ i64 0, label %ask
                                 i64 -1, label %nothing ]
remain:
  %remainder = srem i64 %a, %b
  br label %binary
nothing:
  br label %binary
udiv:
  %no_quotient = icmp eq i64 %b, 0
  br i1 %no_quotient, label %ask, label %udivide
udivide:
  %uquotient = udiv i64 %a, %b
  br label %binary
urem:
  %no_remainder = icmp eq i64 %b, 0
  br i1 %no_remainder, label %ask, label %uremain
uremain:
  %uremainder = urem i64 %a, %b
  br label %binary
shift:  ; the operand is the width
  %by_less = icmp ult i64 %b, %operand
  br i1 %by_less, label %shifted, label %ask
shifted:
  %count = and i64 %b, 63
  %is_left = icmp eq i64 %op, $DO_left
  %is_right = icmp eq i64 %op, $DO_right
  %to_left = shl i64 %a, %count
  %to_right = ashr i64 %a, %count
  %to_uright = lshr i64 %a, %count
  %rights = select i1 %is_right, i64 %to_right, i64 %to_uright
  %moved = select i1 %is_left, i64 %to_left, i64 %rights
  br label %binary
eq:
  %is_eq = icmp eq i64 %a, %b
  br label %truth
ne:
  %is_ne = icmp ne i64 %a, %b
  br label %truth
lt:
  %is_lt = icmp slt i64 %a, %b
  br label %truth
le:
  %is_le = icmp sle i64 %a, %b
  br label %truth
ult:
  %is_ult = icmp ult i64 %a, %b
  br label %truth
ule:
  %is_ule = icmp ule i64 %a, %b
  br label %truth
feq:
  %is_feq = fcmp oeq double %fa, %fb
  br label %truth
fne:
  %is_fne = fcmp une double %fa, %fb
  br label %truth
flt:
  %is_flt = fcmp olt double %fa, %fb
  br label %truth
fle:
  %is_fle = fcmp ole double %fa, %fb
  br label %truth
truth:
  %true = phi i1 [ %is_eq, %eq ], [ %is_ne, %ne ], [ %is_lt, %lt ], [ %is_le, %le ],
                 [ %is_ult, %ult ], [ %is_ule, %ule ], [ %is_feq, %feq ], [ %is_fne, %fne ],
                 [ %is_flt, %flt ], [ %is_fle, %fle ]
  %truth_word = zext i1 %true to i64
  br label %binary
fadd:
  %fsum = fadd double %fa, %fb
  br label %reals
fsub:
  %fdifference = fsub double %fa, %fb
  br label %reals
fmul:
  %fproduct = fmul double %fa, %fb
  br label %reals
fdiv:
  %fquotient = fdiv double %fa, %fb
  br label %reals
reals:
  %freal = phi double [ %fsum, %fadd ], [ %fdifference, %fsub ], [ %fproduct, %fmul ],
                      [ %fquotient, %fdiv ]
  %freal_bits = bitcast double %freal to i64
  br label %binary
binary:
  %outcome = phi i64 [ %sum, %add ], [ %difference, %sub ], [ %product, %mul ], [ %both, %and ],
                     [ %either, %or ], [ %one, %xor ], [ %quotient, %divide ],
                     [ %negative, %negate ], [ %remainder, %remain ], [ 0, %nothing ],
                     [ %uquotient, %udivide ], [ %uremainder, %uremain ], [ %moved, %shifted ],
                     [ %truth_word, %truth ], [ %freal_bits, %reals ]
  store i64 %outcome, ptr %second_at
  br label %loop

end:  ; of what was replaced meanwhile nothing is known
  %is_true = icmp ne i64 %b, 0
  %now = load atomic i64, ptr $stop_table seq_cst, align 8
  %changed = icmp ne i64 %now, %before
  %stays = or i1 %is_true, %changed
  br i1 %stays, label %ask, label %goes
goes:
  %uncounted = icmp eq i64 %cell, 0
  br i1 %uncounted, label %done, label %count_it
count_it:
  %hits_at = getelementptr i64, ptr $stop_programs, i64 %cell
  %n = atomicrmw add ptr %hits_at, i64 1 seq_cst
  br label %done
done:
  ret i64 %slot
ask:
  ret i64 0
}

attributes #2 = { nounwind noinline noredzone "no-builtins" "no-jump-tables"="true" "frame-pointer"="none" }
