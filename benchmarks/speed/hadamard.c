/* A fast Walsh-Hadamard transform in the manner of FFHT: vectors in registers, blocks that stay in the L1 cache.
   The peer of `hadamard_transform`; compiled with -O3 -march=native by hadamard.py. */
#include <stddef.h>
#include <string.h>

#define BLOCK 4096

typedef double vec __attribute__((vector_size(32), aligned(8)));
typedef long long lanes4 __attribute__((vector_size(32)));

static void levels(double *x, size_t n, size_t from) {
    size_t h = from;
    for (; h * 4 <= n; h *= 4) /* two levels in one pass */
        for (size_t i = 0; i < n; i += 4 * h)
            for (size_t j = i; j < i + h; j += 4) {
                vec *a = (vec *)(x + j), *b = (vec *)(x + j + h), *c = (vec *)(x + j + 2 * h), *d = (vec *)(x + j + 3 * h);
                vec p = *a + *b, q = *a - *b, r = *c + *d, s = *c - *d;
                *a = p + r, *b = q + s, *c = p - r, *d = q - s;
            }
    if (h < n)
        for (size_t j = 0; j < h; j += 4) {
            vec *a = (vec *)(x + j), *b = (vec *)(x + j + h);
            vec p = *a + *b, q = *a - *b;
            *a = p, *b = q;
        }
}

static void inside(double *x, size_t n) { /* the four lanes of each vector */
    for (size_t i = 0; i < n; i += 4) {
        vec v = *(vec *)(x + i);
        vec w = __builtin_shuffle(v, (lanes4){1, 0, 3, 2});
        vec s = v + w, d = w - v;
        v = __builtin_shuffle(s, d, (lanes4){0, 5, 2, 7});
        w = __builtin_shuffle(v, (lanes4){2, 3, 0, 1});
        s = v + w, d = w - v;
        *(vec *)(x + i) = __builtin_shuffle(s, d, (lanes4){0, 1, 6, 7});
    }
}

/* n is a power of two, at least 4 */
void hadamard(double *x, size_t n) {
    size_t block = n < BLOCK ? n : BLOCK;
    for (size_t i = 0; i < n; i += block) {
        inside(x + i, block);
        levels(x + i, block, 4);
    }
    levels(x, n, block);
}
