"""Modules that make LLVM and gcc emit every kind of section, symbol and relocation they have."""

from __future__ import annotations

__all__ = ["C_SOURCES", "IR", "KINDS"]

#: What the modules import, and what it is.  The variable is one that is never near: a Python that is
#: linked for a fixed address, below 2 GiB, has its own copies of libc's environ, stdin and stdout.
KINDS = {
    "puts": "function", "printf": "function", "__cxa_throw": "function",
    "program_invocation_name": "variable",
    "__cxa_allocate_exception": "function", "__cxa_begin_catch": "function", "malloc": "function",
    "__cxa_end_catch": "function", "__gxx_personality_v0": "function", "later": "function",
    "memset": "function", "maybe": "function", "memcpy": "function",
}  # fmt: skip

IR = {
    "calls": """
        declare i32 @puts(ptr)
        declare void @later()
        @hello = constant [6 x i8] c"hello\\00"
        define i32 @callee(i32 %x) noinline { %r = mul i32 %x, 3  ret i32 %r }
        define i32 @caller(i32 %x) {
          %a = call i32 @callee(i32 %x)
          %b = call i32 @callee(i32 %a)
          %c = call i32 @puts(ptr @hello)
          call void @later()
          %s = add i32 %b, %c
          ret i32 %s
        }
        define i32 @tail(i32 %x) { %r = tail call i32 @callee(i32 %x)  ret i32 %r }
        define void @far_tail() { tail call void @later()  ret void }
        define i32 @recursive(i32 %x) {
          %z = icmp eq i32 %x, 0
          br i1 %z, label %out, label %more
        more:
          %y = sub i32 %x, 1
          %r = call i32 @recursive(i32 %y)
          %s = mul i32 %r, %x
          ret i32 %s
        out:
          ret i32 1
        }
    """,
    "variables": """
        @counter = global i32 41
        @zero = global [100 x i64] zeroinitializer, align 32
        @constants = constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
        @private = private global i32 5
        @inside = internal global i64 6
        @hidden = hidden global i32 7
        @protected = protected global i32 8
        @near = dso_local global i32 9
        @program_invocation_name = external global ptr
        @big = global [70000 x i8] zeroinitializer
        @in_section = global i32 3, section "my_section"
        @_start_holder = global ptr @in_section
        define i32 @reads(i64 %i) {
          %a = load i32, ptr @counter
          %b = load volatile i32, ptr @private
          %c = load volatile i64, ptr @inside
          %d = load i32, ptr @hidden
          %e = load i32, ptr @protected
          %f = load i32, ptr @near
          %p = getelementptr [100 x i64], ptr @zero, i64 0, i64 %i
          %g = load i64, ptr %p
          %q = getelementptr [4 x i32], ptr @constants, i64 0, i64 %i
          %h = load i32, ptr %q
          %c32 = trunc i64 %c to i32
          %g32 = trunc i64 %g to i32
          %s1 = add i32 %a, %b
          %s2 = add i32 %s1, %c32
          %s3 = add i32 %s2, %d
          %s4 = add i32 %s3, %e
          %s5 = add i32 %s4, %f
          %s6 = add i32 %s5, %g32
          %s7 = add i32 %s6, %h
          store i32 %s7, ptr @counter
          store volatile i32 %s7, ptr @private
          store volatile i64 %c, ptr @inside
          ret i32 %s7
        }
        define ptr @outside() { %e = load ptr, ptr @program_invocation_name  ret ptr %e }
        define ptr @element() { ret ptr getelementptr ([100 x i64], ptr @zero, i64 0, i64 50) }
        define i1 @compares(ptr %p) { %c = icmp eq ptr %p, @counter  ret i1 %c }
        define i64 @adds(i64 %x) {
          %s = add i64 %x, ptrtoint (ptr @counter to i64)
          %t = xor i64 %s, ptrtoint (ptr @near to i64)
          ret i64 %t
        }
    """,
    "tables": """
        declare i32 @puts(ptr)
        define i32 @one() { ret i32 1 }
        define hidden i32 @two() { ret i32 2 }
        define internal i32 @three() { ret i32 3 }
        @table = constant [4 x ptr] [ptr @one, ptr @two, ptr @three, ptr @puts]
        @writable = global { i32, ptr, ptr } { i32 1, ptr @one, ptr @table }
        @middle = global ptr getelementptr ([4 x ptr], ptr @table, i64 0, i64 2)
        @relative = constant [2 x i32] [
          i32 trunc (i64 sub (i64 ptrtoint (ptr @three to i64),
                              i64 ptrtoint (ptr @relative to i64)) to i32),
          i32 trunc (i64 sub (i64 ptrtoint (ptr @table to i64),
                              i64 ptrtoint (ptr @relative to i64)) to i32)]
        define ptr @address_of(i1 %c) { %r = select i1 %c, ptr @one, ptr @puts  ret ptr %r }
        define i32 @calls_through(i64 %i) {
          %p = getelementptr [4 x ptr], ptr @table, i64 0, i64 %i
          %f = load ptr, ptr %p
          %r = call i32 %f()
          ret i32 %r
        }
        define i1 @same(ptr %p) { %c = icmp eq ptr %p, @one  ret i1 %c }
    """,
    "switches": """
        declare void @later()
        define i32 @switches(i32 %x) {
          switch i32 %x, label %d [ i32 0, label %a i32 1, label %b i32 2, label %c i32 3, label %e
                                    i32 4, label %f i32 5, label %g i32 6, label %h ]
        a: call void @later() ret i32 7
        b: call void @later() ret i32 -9
        c: call void @later() ret i32 100
        e: call void @later() ret i32 3
        f: call void @later() ret i32 22
        g: call void @later() ret i32 1
        h: call void @later() ret i32 98
        d: ret i32 0
        }
        define i32 @looked_up(i32 %x) {
          switch i32 %x, label %d [ i32 0, label %a i32 1, label %b i32 2, label %c i32 3, label %e
                                    i32 4, label %f ]
        a: br label %d
        b: br label %d
        c: br label %d
        e: br label %d
        f: br label %d
        d: %r = phi i32 [ 0, %0 ], [ 17, %a ], [ 4, %b ], [ 99, %c ], [ 12, %e ], [ 6, %f ]
           ret i32 %r
        }
    """,
    "block addresses": """
        @targets = constant [2 x ptr] [ptr blockaddress(@jumps, %a), ptr blockaddress(@jumps, %b)]
        define i32 @jumps(i64 %i) {
          %p = getelementptr [2 x ptr], ptr @targets, i64 0, i64 %i
          %t = load ptr, ptr %p
          indirectbr ptr %t, [label %a, label %b]
        a: ret i32 1
        b: ret i32 2
        }
    """,
    "constant pools": """
        define double @scaled(double %x) {
          %a = fmul double %x, 3.25
          %b = fadd double %a, 0x3FF3333333333333
          %c = fneg double %b
          ret double %c
        }
        define <4 x float> @vector(<4 x float> %x) {
          %a = fmul <4 x float> %x, <float 1.5, float 2.5, float 3.5, float 4.5>
          %b = fadd <4 x float> %a, <float 0.125, float 0.25, float 0.375, float 0.5>
          ret <4 x float> %b
        }
        define x86_fp80 @long(x86_fp80 %x) {
          %a = fmul x86_fp80 %x, 0xK4000C90FDAA22168C235
          ret x86_fp80 %a
        }
        define double @unsigned(i64 %x) { %r = uitofp i64 %x to double  ret double %r }
    """,
    "linkages": """
        $comdat_function = comdat any
        $comdat_data = comdat any
        @common = common global i64 0, align 16
        @common_array = common global [33 x i8] zeroinitializer, align 1
        @weak_data = weak global i32 3
        @linkonce = linkonce_odr global i32 4
        @comdat_data = linkonce_odr global i32 5, comdat
        @maybe_data = extern_weak global i32
        declare extern_weak void @maybe()
        @alias_data = alias i32, ptr @weak_data
        @alias_part = alias i32, getelementptr ({ i32, i32 }, ptr @pair, i64 0, i32 1)
        @pair = global { i32, i32 } { i32 1, i32 2 }
        @alias_function = alias i32 (), ptr @weak_function
        define weak i32 @weak_function() { ret i32 1 }
        define linkonce_odr i32 @comdat_function() comdat { ret i32 2 }
        define i32 @uses() {
          %a = load i64, ptr @common
          %b = load i32, ptr @weak_data
          %c = load i32, ptr @linkonce
          %d = load i32, ptr @comdat_data
          %e = load i32, ptr @alias_data
          %f = load i32, ptr @alias_part
          %g = call i32 @weak_function()
          %h = call i32 @comdat_function()
          %i = call i32 @alias_function()
          store i8 1, ptr @common_array
          %s1 = add i32 %b, %c
          %s2 = add i32 %s1, %d
          %s3 = add i32 %s2, %e
          %s4 = add i32 %s3, %f
          %s5 = add i32 %s4, %g
          %s6 = add i32 %s5, %h
          %s7 = add i32 %s6, %i
          ret i32 %s7
        }
        define i1 @is_there() { %c = icmp ne ptr @maybe, null  ret i1 %c }
        define i1 @is_data_there() { %c = icmp ne ptr @maybe_data, null  ret i1 %c }
        define void @calls_maybe() { call void @maybe()  ret void }
    """,
    "constructors": """
        @order = global [8 x i8] zeroinitializer
        @at = global i64 0
        @llvm.global_ctors = appending global [3 x { i32, ptr, ptr }] [
          { i32, ptr, ptr } { i32 65535, ptr @last, ptr null },
          { i32, ptr, ptr } { i32 101, ptr @first, ptr null },
          { i32, ptr, ptr } { i32 200, ptr @second, ptr null }]
        @llvm.global_dtors = appending global [2 x { i32, ptr, ptr }] [
          { i32, ptr, ptr } { i32 65535, ptr @bye, ptr null },
          { i32, ptr, ptr } { i32 101, ptr @finally, ptr null }]
        define void @note(i8 %c) noinline {
          %i = load i64, ptr @at
          %p = getelementptr [8 x i8], ptr @order, i64 0, i64 %i
          store i8 %c, ptr %p
          %j = add i64 %i, 1
          store i64 %j, ptr @at
          ret void
        }
        define void @first() { call void @note(i8 97)  ret void }
        define void @second() { call void @note(i8 98)  ret void }
        define internal void @last() { call void @note(i8 99)  ret void }
        define void @bye() { call void @note(i8 100)  ret void }
        define internal void @finally() { call void @note(i8 101)  ret void }
    """,
    "exceptions": """
        @_ZTI3own = constant { ptr, ptr } { ptr null, ptr @_ZTS3own }
        @_ZTS3own = constant [4 x i8] c"own\\00"
        declare i32 @__gxx_personality_v0(...)
        declare ptr @__cxa_begin_catch(ptr)
        declare void @__cxa_end_catch()
        declare void @later()
        define i32 @catches() personality ptr @__gxx_personality_v0 {
          invoke void @later() to label %fine unwind label %pad
        fine: ret i32 0
        pad:
          %e = landingpad { ptr, i32 } catch ptr @_ZTI3own catch ptr null
          %p = extractvalue { ptr, i32 } %e, 0
          call ptr @__cxa_begin_catch(ptr %p)
          call void @__cxa_end_catch()
          ret i32 1
        }
        define void @cleans() personality ptr @__gxx_personality_v0 {
          invoke void @later() to label %fine unwind label %pad
        fine: ret void
        pad:
          %e = landingpad { ptr, i32 } cleanup
          %r = call i32 @catches()
          resume { ptr, i32 } %e
        }
    """,
    "memory": """
        declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
        declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
        @from = constant [300 x i8] zeroinitializer
        @to = global [300 x i8] zeroinitializer
        define void @copies(i64 %n) {
          call void @llvm.memcpy.p0.p0.i64(ptr @to, ptr @from, i64 %n, i1 false)
          call void @llvm.memset.p0.i64(ptr @to, i8 1, i64 %n, i1 false)
          ret void
        }
        define i64 @stack(i64 %n) {
          %p = alloca [9000 x i8]
          store volatile i8 1, ptr %p
          %q = alloca i8, i64 %n
          store volatile i8 2, ptr %q
          ret i64 %n
        }
    """,
    "names": """
        @"a b" = global i32 1
        @"gr\\C3\\BC\\C3\\9Fe" = global ptr @"a b"
        define i32 @"say $1"() { %r = load i32, ptr @"a b"  ret i32 %r }
        define i32 @"->"() { %r = call i32 @"say $1"()  ret i32 %r }
    """,
}

C_SOURCES = {
    "plain": """
        #include <stdio.h>
        int shared = 3; static int mine = 4; int tentative; static int zeroed[40];
        const char *words[] = {"one", "two", "three"};
        int twice(int x) { return 2 * x; }
        static int thrice(int x) { return 3 * x; }
        int (*table[])(int) = {twice, thrice};
        int work(int n) {
            mine += n; tentative += mine; zeroed[n] = shared;
            for (int i = 0; i < 2; i++) n += table[i](n);
            puts(words[n % 3]);
            return twice(n) + thrice(n) + zeroed[1];
        }
        int (*pick(int n))(int) { return n ? twice : thrice; }
        int choose(int n) {
            switch (n) { case 0: return work(1); case 1: return puts("x"); case 2: return shared;
              case 3: return mine; case 4: return work(n); case 5: return 12; default: return 0; }
        }
        double scale(double x) { return x * 1.25 + 0.1; }
        int later(void);
        int tail(void) { return later(); }
    """,
    "attributes": """
        __attribute__((weak)) int weak_one(void) { return 1; }
        __attribute__((visibility("hidden"))) int hidden_one = 7;
        __attribute__((section("special"))) int special_one = 8;
        extern int special_first __asm__("__start_special"), special_end __asm__("__stop_special");
        __attribute__((weak)) extern int maybe(void);
        int aliased(void) __attribute__((alias("weak_one")));
        __attribute__((constructor)) static void begins(void) { hidden_one++; }
        __attribute__((destructor(300))) static void ends(void) { hidden_one--; }
        __attribute__((constructor(150))) void begins_early(void) { special_one++; }
        int *bounds(int end) { return end ? &special_end : &special_first; }
        int asks(void) { return maybe ? maybe() : weak_one() + hidden_one; }
        static int computed(int i) {
            static void *to[] = {&&a, &&b};
            goto *to[i];
            a: return 1;
            b: return 2;
        }
        int jumps(int i) { return computed(i & 1); }
    """,
}
