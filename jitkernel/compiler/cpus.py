"""The processors that LLVM generates code for, by machine, as `--cpu` takes them: `CPUS`.

A table, because TAB asks for it where no LLVM is.  Those are left out that LLVM lists for a machine
and then refuses, such as processors without 64-bit mode for x86-64.
"""

from __future__ import annotations

_X86_64 = """
        alderlake amdfam10 arrowlake arrowlake-s arrowlake_s athlon-fx athlon64 athlon64-sse3
        atom atom_sse4_2 atom_sse4_2_movbe barcelona bdver1 bdver2 bdver3 bdver4 bonnell
        broadwell btver1 btver2 cannonlake cascadelake clearwaterforest cooperlake core-avx-i
        core-avx2 core2 core_2_duo_sse4_1 core_2_duo_ssse3 core_2nd_gen_avx core_3rd_gen_avx
        core_4th_gen_avx core_4th_gen_avx_tsx core_5th_gen_avx core_5th_gen_avx_tsx
        core_aes_pclmulqdq core_i7_sse4_2 corei7 corei7-avx diamondrapids emeraldrapids generic
        goldmont goldmont-plus goldmont_plus gracemont grandridge graniterapids graniterapids-d
        graniterapids_d haswell icelake-client icelake-server icelake_client icelake_server
        ivybridge k8 k8-sse3 knl knm lunarlake meteorlake mic_avx512 nehalem nocona novalake
        opteron opteron-sse3 pantherlake penryn raptorlake rocketlake sandybridge sapphirerapids
        sierraforest silvermont skx skylake skylake-avx512 skylake_avx512 slm tigerlake tremont
        westmere wildcatlake x86-64 x86-64-v2 x86-64-v3 x86-64-v4 znver1 znver2 znver3 znver4
        znver5"""
_LISTED = {
    "x86_64": _X86_64,
    "i686": f"""{_X86_64}
        athlon athlon-4 athlon-mp athlon-tbird athlon-xp c3 c3-2 geode i386 i486 i586 i686
        k6 k6-2 k6-3 lakemont pentium pentium-m pentium-mmx pentium2 pentium3 pentium3m
        pentium4 pentium4m pentium_4 pentium_4_sse3 pentium_ii pentium_iii
        pentium_iii_no_xmm_regs pentium_m pentium_mmx pentium_pro pentiumpro prescott
        winchip-c6 winchip2 yonah""",
    "aarch64": """
        a64fx ampere1 ampere1a ampere1b ampere1c apple-a10 apple-a11 apple-a12 apple-a13
        apple-a14 apple-a15 apple-a16 apple-a17 apple-a18 apple-a19 apple-a7 apple-a8 apple-a9
        apple-m1 apple-m2 apple-m3 apple-m4 apple-m5 apple-s10 apple-s4 apple-s5 apple-s6
        apple-s7 apple-s8 apple-s9 c1-nano c1-premium c1-pro c1-ultra carmel cobalt-100
        cortex-a320 cortex-a34 cortex-a35 cortex-a510 cortex-a520 cortex-a520ae cortex-a53
        cortex-a55 cortex-a57 cortex-a65 cortex-a65ae cortex-a710 cortex-a715 cortex-a72
        cortex-a720 cortex-a720ae cortex-a725 cortex-a73 cortex-a75 cortex-a76 cortex-a76ae
        cortex-a77 cortex-a78 cortex-a78ae cortex-a78c cortex-r82 cortex-r82ae cortex-x1
        cortex-x1c cortex-x2 cortex-x3 cortex-x4 cortex-x925 cyclone exynos-m3 exynos-m4
        exynos-m5 falkor fujitsu-monaka gb10 generic grace kryo neoverse-512tvb neoverse-e1
        neoverse-n1 neoverse-n2 neoverse-n3 neoverse-v1 neoverse-v2 neoverse-v3 neoverse-v3ae
        olympus oryon-1 saphira thunderx thunderx2t99 thunderx3t110 thunderxt81 thunderxt83
        thunderxt88 tsv110""",
    "arm": """
        arm1020e arm1020t arm1022e arm10e arm10tdmi arm1136j-s arm1136jf-s arm1156t2-s
        arm1156t2f-s arm1176jz-s arm1176jzf-s arm710t arm720t arm7tdmi arm7tdmi-s arm8 arm810
        arm9 arm920 arm920t arm922t arm926ej-s arm940t arm946e-s arm966e-s arm968e-s arm9e
        arm9tdmi cortex-a12 cortex-a15 cortex-a17 cortex-a32 cortex-a35 cortex-a5 cortex-a510
        cortex-a53 cortex-a55 cortex-a57 cortex-a7 cortex-a710 cortex-a72 cortex-a73 cortex-a75
        cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae cortex-a78c cortex-a8
        cortex-a9 cortex-m0 cortex-m0plus cortex-m1 cortex-m23 cortex-m3 cortex-m33 cortex-m35p
        cortex-m4 cortex-m52 cortex-m55 cortex-m7 cortex-m85 cortex-r4 cortex-r4f cortex-r5
        cortex-r52 cortex-r52plus cortex-r7 cortex-r8 cortex-x1 cortex-x1c cyclone ep9312
        exynos-m3 exynos-m4 exynos-m5 generic iwmmxt krait kryo mpcore mpcorenovfp neoverse-n1
        neoverse-n2 neoverse-v1 sc000 sc300 star-mc1 star-mc3 strongarm strongarm110
        strongarm1100 strongarm1110 swift xscale""",
    "riscv64": """
        andes-ax25 andes-ax45 andes-ax45mpv andes-nx45 generic generic-rv64 mips-p8700
        rocket-rv64 sifive-p450 sifive-p470 sifive-p550 sifive-p670 sifive-p870 sifive-s21
        sifive-s51 sifive-s54 sifive-s76 sifive-u54 sifive-u74 sifive-x280 sifive-x390
        spacemit-x60 syntacore-scr3-rv64 syntacore-scr4-rv64 syntacore-scr5-rv64 syntacore-scr7
        tt-ascalon-d8 veyron-v1 xiangshan-kunminghu xiangshan-nanhu""",
    "riscv32": """
        andes-a25 andes-a45 andes-n45 generic generic-rv32 rocket-rv32 rp2350-hazard3 sifive-e20
        sifive-e21 sifive-e24 sifive-e31 sifive-e34 sifive-e76 syntacore-scr1-base
        syntacore-scr1-max syntacore-scr3-rv32 syntacore-scr4-rv32 syntacore-scr5-rv32""",
    "ppc64le": """
        440 450 601 602 603 603e 603ev 604 604e 620 7400 7450 750 970 a2 e500mc e5500 future g3
        g4 g4+ g5 generic ppc ppc32 ppc64 ppc64le pwr10 pwr11 pwr3 pwr4 pwr5 pwr5x pwr6 pwr6x
        pwr7 pwr8 pwr9""",
    "s390x": """
        arch10 arch11 arch12 arch13 arch14 arch15 arch8 arch9 generic z10 z13 z14 z15 z16 z17
        z196 zEC12""",
    "mips64el": """
        generic i6400 i6500 mips3 mips4 mips64 mips64r2 mips64r3 mips64r5 mips64r6 octeon
        octeon+""",
    "loongarch64": """
        generic generic-la64 la464 la664 loongarch64""",
    "wasm32": """
        bleeding-edge generic lime1 mvp""",
    "nvptx64": """
        sm_100 sm_100a sm_100f sm_101 sm_101a sm_101f sm_103 sm_103a sm_103f sm_110 sm_110a
        sm_110f sm_120 sm_120a sm_120f sm_121 sm_121a sm_121f sm_20 sm_21 sm_30 sm_32 sm_35
        sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_88
        sm_89 sm_90 sm_90a""",
    "bpf": """
        generic probe v1 v2 v3 v4""",
}

#: Machine, as `views.foreign.TARGETS` has it, to the names of its processors, sorted.
CPUS: dict[str, tuple[str, ...]] = {
    machine: tuple(sorted(names.split())) for machine, names in _LISTED.items()
}
