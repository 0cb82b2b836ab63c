/* The batch update of streamsketch/projections/kernels/tiles.py in C: the same hashes, scratch and bounds, and so the same bits;
   the next tile is hashed before one is scattered. update.py compiles it with -O3 -march=native. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __PCLMUL__
#include <immintrin.h>
#endif

#define LOW_32 ((1ULL << 32) - 1)
#define BLOCK 256 /* items whose bounds are found at a time */
#define TILE 16   /* and that are hashed and scattered */
#define LINE 8

/* The words of a tile: polynomials over GF(2^64), x^64 = x^4 + x^3 + x + 1, at keys below 2^60. */
#if defined(__VPCLMULQDQ__) && defined(__AVX512F__)
static void horner(const uint64_t *restrict keys, const uint64_t *restrict coefficients, size_t t,
                   uint64_t *restrict out) {
    __m512i key[TILE / 8], held[TILE / 8];
    for (size_t v = 0; v < TILE / 8; v++)
        key[v] = _mm512_loadu_si512(keys + 8 * v), held[v] = _mm512_set1_epi64(coefficients[0]);
    for (size_t j = 1; j < t; j++) {
        __m512i coefficient = _mm512_set1_epi64(coefficients[j]);
        for (size_t v = 0; v < TILE / 8; v++) {
            __m512i even = _mm512_clmulepi64_epi128(held[v], key[v], 0x00);
            __m512i odd = _mm512_clmulepi64_epi128(held[v], key[v], 0x11);
            __m512i lower = _mm512_unpacklo_epi64(even, odd), upper = _mm512_unpackhi_epi64(even, odd);
            __m512i once = _mm512_xor_si512(upper, _mm512_slli_epi64(upper, 1));
            __m512i folded = _mm512_xor_si512(once, _mm512_slli_epi64(once, 3));
            held[v] = _mm512_xor_si512(_mm512_xor_si512(lower, coefficient), folded);
        }
    }
    for (size_t v = 0; v < TILE / 8; v++)
        _mm512_storeu_si512(out + 8 * v, held[v]);
}
#else
static uint64_t product(uint64_t a, uint64_t b, uint64_t *upper) {
#ifdef __PCLMUL__
    __m128i both = _mm_clmulepi64_si128(_mm_cvtsi64_si128(a), _mm_cvtsi64_si128(b), 0);
    *upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both));
    return _mm_cvtsi128_si64(both);
#else
    uint64_t lower = 0;
    *upper = 0;
    for (unsigned bit = 0; bit < 60; bit++) {
        uint64_t one = -(b >> bit & 1);
        lower ^= one & a << bit;
        *upper ^= bit ? one & a >> (64 - bit) : 0;
    }
    return lower;
#endif
}

static void horner(const uint64_t *restrict keys, const uint64_t *restrict coefficients, size_t t,
                   uint64_t *restrict out) {
    for (size_t i = 0; i < TILE; i++)
        out[i] = coefficients[0];
    for (size_t j = 1; j < t; j++)
        for (size_t i = 0; i < TILE; i++) {
            uint64_t upper, lower = product(out[i], keys[i], &upper);
            upper ^= upper << 1;
            out[i] = lower ^ coefficients[j] ^ upper ^ upper << 3;
        }
}
#endif

static void scatter(const uint64_t *restrict words, const int64_t *restrict values, size_t n, int64_t *restrict scratch,
                    size_t rows, unsigned width) {
    uint64_t field = (1ULL << width) - 1;
    size_t row = 0;
    for (; row + 4 <= rows; row += 4) {
        int64_t *cells = scratch + (row << width);
        for (size_t i = 0; i < n; i++) {
            uint64_t word = words[i] >> (row * width);
            int64_t value = values[i];
            cells[word & field] += value, word >>= width;
            cells[(1ULL << width) + (word & field)] += value, word >>= width;
            cells[(2ULL << width) + (word & field)] += value, word >>= width;
            cells[(3ULL << width) + (word & field)] += value;
        }
    }
    for (; row < rows; row++)
        for (size_t i = 0; i < n; i++)
            scratch[(row << width) + ((words[i] >> (row * width)) & field)] += values[i];
}

static void prefetch(const uint64_t *keys, const int64_t *values) {
    for (size_t i = 0; i < TILE; i += LINE)
        __builtin_prefetch(keys + i), __builtin_prefetch(values + i);
}

/* Adds whole tiles to the scratch. */
static void add_tiles(const uint64_t *keys, const int64_t *values, size_t n, const uint64_t *coefficients, size_t words,
                      size_t t, size_t rows, unsigned width, size_t rows_per_word, int64_t *scratch, uint64_t *bounds) {
    uint64_t hashed[2][TILE];
    uint64_t largest = bounds[0], upper = bounds[1], lower = bounds[2];
    unsigned half = 0;
    if (n)
        horner(keys, coefficients, t, hashed[half]);
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t end = n - start < BLOCK ? n : start + BLOCK;
        for (size_t i = start; i < end; i++) {
            uint64_t magnitude = values[i] < 0 ? -(uint64_t)values[i] : (uint64_t)values[i];
            largest = keys[i] > largest ? keys[i] : largest;
            upper += magnitude >> 32;
            lower += magnitude & LOW_32;
        }
        for (size_t place = start; place < end; place += TILE) {
            prefetch(keys + place + BLOCK, values + place + BLOCK);
            for (size_t word = 0; word < words; word++) {
                size_t first = word * rows_per_word, count = rows - first < rows_per_word ? rows - first : rows_per_word;
                size_t next = word + 1 < words ? place : place + TILE < n ? place + TILE : place;
                horner(keys + next, coefficients + (word + 1) % words * t, t, hashed[1 - half]);
                scatter(hashed[half], values + place, TILE, scratch + (first << width), count, width);
                half = 1 - half;
            }
        }
    }
    bounds[0] = largest, bounds[1] = upper, bounds[2] = lower;
}

/* Adds a batch to `state`, `rows` times 2^(width - 1) cells, and writes the largest key and the two limbs of the sum of
   magnitudes to `bounds`; returns 0, or 1 without memory. */
int update(const uint64_t *keys, const int64_t *values, size_t n, const uint64_t *coefficients, size_t words, size_t t,
           size_t rows, unsigned width, size_t rows_per_word, int64_t *state, uint64_t *bounds) {
    int64_t *scratch = calloc(rows << width, sizeof *scratch);
    if (!scratch)
        return 1;
    uint64_t last_keys[TILE] = {0};
    int64_t last_values[TILE] = {0};
    size_t whole = n - n % TILE;
    for (size_t i = whole; i < n; i++)
        last_keys[i - whole] = keys[i], last_values[i - whole] = values[i];
    bounds[0] = bounds[1] = bounds[2] = 0;
    add_tiles(keys, values, whole, coefficients, words, t, rows, width, rows_per_word, scratch, bounds);
    if (whole < n)
        add_tiles(last_keys, last_values, TILE, coefficients, words, t, rows, width, rows_per_word, scratch, bounds);
    size_t buckets = 1ULL << (width - 1);
    for (size_t row = 0; row < rows; row++)
        for (size_t bucket = 0; bucket < buckets; bucket++)
            state[row * buckets + bucket] += scratch[(row << width) + bucket] - scratch[(row << width) + buckets + bucket];
    free(scratch);
    return 0;
}
