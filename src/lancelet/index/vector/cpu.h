/* What the processor can do, asked once. Kernels have a form for each level that pays, marked with LC_AVX2 and so on,
 * and a plain one that every compiler takes (and makes NEON of, where that is what there is).
 *
 *     level 0  plain C
 *           1  AVX2 and FMA
 *           2  AVX-512 F, BW, DQ, VL
 *           3  and VBMI, VNNI, VPOPCNTDQ
 *
 * LANCELET_SIMD=0..3 in the environment lowers the level: so that tests see all forms. */
#ifndef LANCELET_CPU_H
#define LANCELET_CPU_H

#include <stdlib.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define LC_X86 1
#include <immintrin.h>
#define LC_AVX2 __attribute__((target("avx2,fma,f16c,bmi2,popcnt")))
#define LC_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2,popcnt")))
#define LC_AVX512V                                                                                        \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,avx512vpopcntdq,avx2,fma,f16c," \
                          "bmi2,popcnt")))
#else
#define LC_X86 0
#endif

static int lc_found_level(void) {
    int level = 0;
#if LC_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) level = 1;
    if (level == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        level = 2;
    if (level == 2 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512vpopcntdq"))
        level = 3;
#endif
    return level;
}

static int lc_cpu_level(void) {
    static int level = -1;
    if (level < 0) {
        const char *wanted = getenv("LANCELET_SIMD");
        int found = lc_found_level();
        if (wanted && wanted[0] >= '0' && wanted[0] <= '3' && wanted[0] - '0' < found) found = wanted[0] - '0';
        level = found;
    }
    return level;
}

#endif
