/* A fast Walsh-Hadamard transform after the FFHT library, with three levels a pass and the widest vectors there are:
   butterflies in registers, blocks that stay in the L1 cache. The peer of `hadamard_transform`; hadamard.py compiles it
   with -O3 -march=native for each type: CELL, INDEX (an integer as wide) and SIZE (in bytes). */
#include <stddef.h>

#if defined __AVX512F__
#define BYTES 64
#elif defined __AVX__
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / SIZE)
#define BLOCK (32768 / SIZE)

typedef CELL vec __attribute__((vector_size(BYTES), aligned(SIZE)));
typedef INDEX lanes __attribute__((vector_size(BYTES)));

#if LANES == 16
#define NUMBERS (lanes){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif LANES == 8
#define NUMBERS (lanes){0, 1, 2, 3, 4, 5, 6, 7}
#elif LANES == 4
#define NUMBERS (lanes){0, 1, 2, 3}
#else
#define NUMBERS (lanes){0, 1}
#endif

#define AT(m) (*(vec *)(x + (m) * h))
#define BUTTERFLY(a, b) { vec t = a; a = t + b; b = t - b; }
#define EIGHT \
    BUTTERFLY(a, b) BUTTERFLY(c, d) BUTTERFLY(e, f) BUTTERFLY(g, i) \
    BUTTERFLY(a, c) BUTTERFLY(b, d) BUTTERFLY(e, g) BUTTERFLY(f, i) \
    BUTTERFLY(a, e) BUTTERFLY(b, f) BUTTERFLY(c, g) BUTTERFLY(d, i)
/* lane l: v + w, or where l has the bit k, w - v */
#define LEVEL(k) { \
    vec w = __builtin_shuffle(v, NUMBERS ^ (k)); \
    v = __builtin_shuffle(v + w, w - v, NUMBERS + (((NUMBERS & (k)) != 0) & LANES)); }

static inline vec inside(vec v) {
    LEVEL(1)
#if LANES > 2
    LEVEL(2)
#endif
#if LANES > 4
    LEVEL(4)
#endif
#if LANES > 8
    LEVEL(8)
#endif
    return v;
}

static inline void eight(CELL *x, size_t h) {
    vec a = AT(0), b = AT(1), c = AT(2), d = AT(3), e = AT(4), f = AT(5), g = AT(6), i = AT(7);
    EIGHT
    AT(0) = a, AT(1) = b, AT(2) = c, AT(3) = d, AT(4) = e, AT(5) = f, AT(6) = g, AT(7) = i;
}

static inline void eight_inside(CELL *x) {
    const size_t h = LANES;
    vec a = AT(0), b = AT(1), c = AT(2), d = AT(3), e = AT(4), f = AT(5), g = AT(6), i = AT(7);
    EIGHT
    AT(0) = inside(a), AT(1) = inside(b), AT(2) = inside(c), AT(3) = inside(d);
    AT(4) = inside(e), AT(5) = inside(f), AT(6) = inside(g), AT(7) = inside(i);
}

static inline void four(CELL *x, size_t h) {
    vec a = AT(0), b = AT(1), c = AT(2), d = AT(3);
    BUTTERFLY(a, b) BUTTERFLY(c, d) BUTTERFLY(a, c) BUTTERFLY(b, d)
    AT(0) = a, AT(1) = b, AT(2) = c, AT(3) = d;
}

static inline void two(CELL *x, size_t h) {
    vec a = AT(0), b = AT(1);
    BUTTERFLY(a, b)
    AT(0) = a, AT(1) = b;
}

static void levels(CELL *x, size_t n, size_t h) {
    for (; 8 * h <= n; h *= 8)
        for (size_t i = 0; i < n; i += 8 * h)
            for (size_t j = i; j < i + h; j += LANES)
                eight(x + j, h);
    if (4 * h <= n) {
        for (size_t i = 0; i < n; i += 4 * h)
            for (size_t j = i; j < i + h; j += LANES)
                four(x + j, h);
        h *= 4;
    }
    if (2 * h <= n)
        for (size_t i = 0; i < n; i += 2 * h)
            for (size_t j = i; j < i + h; j += LANES)
                two(x + j, h);
}

/* n is a power of two, at least 8 LANES */
void hadamard(CELL *x, size_t n) {
    size_t block = n < BLOCK ? n : BLOCK;
    for (size_t i = 0; i < n; i += block) {
        for (size_t j = i; j < i + block; j += 8 * LANES)
            eight_inside(x + j);
        levels(x + i, block, 8 * LANES);
    }
    levels(x, n, block);
}
