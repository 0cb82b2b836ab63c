/* The batch update of streamsketch/projections/kernels.py in C: the same blocks, hashes, scratch and bounds, and so the
   same bits. What a compiler of C makes of the algorithm; update.py compiles it with -O3 -march=native. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define P ((1ULL << 61) - 1)
#define LOW_32 ((1ULL << 32) - 1)
#define LOW_29 ((1ULL << 29) - 1)
#define BLOCK 256 /* items whose bounds are found at a time */
#define TILE 64   /* and that are hashed and scattered */
#define LINE 8

static void reduce(uint64_t *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t folded = (out[i] & P) + (out[i] >> 61);
        out[i] = folded >= P ? folded - P : folded;
    }
}

static void horner_narrow(const uint64_t *restrict keys, size_t n, const uint64_t *restrict coefficients, size_t t,
                          uint64_t *restrict out) {
    for (size_t i = 0; i < n; i++)
        out[i] = coefficients[0];
    for (size_t j = 1; j < t; j++) {
        uint64_t coefficient = coefficients[j];
        for (size_t i = 0; i < n; i++) {
            uint64_t key = keys[i] & LOW_32, upper = (out[i] >> 32) * key, lower = (out[i] & LOW_32) * key;
            out[i] = (upper >> 29) + ((upper & LOW_29) << 32) + (lower >> 61) + (lower & P) + coefficient;
        }
    }
    reduce(out, n);
}

static void horner_wide(const uint64_t *restrict keys, size_t n, const uint64_t *restrict coefficients, size_t t,
                        uint64_t *restrict out) {
    for (size_t i = 0; i < n; i++)
        out[i] = coefficients[0];
    for (size_t j = 1; j < t; j++) {
        uint64_t coefficient = coefficients[j];
        for (size_t i = 0; i < n; i++) {
            uint64_t key_upper = (keys[i] >> 32) & LOW_32, key_lower = keys[i] & LOW_32;
            uint64_t out_upper = out[i] >> 32, out_lower = out[i] & LOW_32;
            uint64_t upper = out_upper * key_upper, middle = out_upper * key_lower + out_lower * key_upper;
            uint64_t lower = out_lower * key_lower;
            out[i] = (upper << 3) + (middle >> 29) + ((middle & LOW_29) << 32) + (lower >> 61) + (lower & P) + coefficient;
        }
    }
    reduce(out, n);
}

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

/* Adds a batch to `state`, `rows` times 2^(width - 1) cells, and writes the largest key and the two limbs of the sum of
   magnitudes to `bounds`; returns 0, or 1 without memory. */
int update(const uint64_t *keys, const int64_t *values, size_t n, const uint64_t *coefficients, size_t words, size_t t,
           size_t rows, unsigned width, size_t rows_per_word, int64_t *state, uint64_t *bounds) {
    uint64_t hashed[TILE];
    int64_t *scratch = calloc(rows << width, sizeof *scratch);
    if (!scratch)
        return 1;
    uint64_t largest = 0, upper = 0, lower = 0;
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t end = n - start < BLOCK ? n : start + BLOCK;
        uint64_t most = 0;
        for (size_t i = start; i < end; i++) {
            uint64_t magnitude = values[i] < 0 ? -(uint64_t)values[i] : (uint64_t)values[i];
            most = keys[i] > most ? keys[i] : most;
            upper += magnitude >> 32;
            lower += magnitude & LOW_32;
        }
        largest = most > largest ? most : largest;
        for (size_t place = start; place < end; place += TILE) {
            size_t size = end - place < TILE ? end - place : TILE;
            prefetch(keys + place + BLOCK, values + place + BLOCK);
            for (size_t word = 0; word < words; word++) {
                size_t first = word * rows_per_word, count = rows - first < rows_per_word ? rows - first : rows_per_word;
                if (most <= LOW_32)
                    horner_narrow(keys + place, size, coefficients + word * t, t, hashed);
                else
                    horner_wide(keys + place, size, coefficients + word * t, t, hashed);
                scatter(hashed, values + place, size, scratch + (first << width), count, width);
            }
        }
    }
    size_t buckets = 1ULL << (width - 1);
    for (size_t row = 0; row < rows; row++)
        for (size_t bucket = 0; bucket < buckets; bucket++)
            state[row * buckets + bucket] += scratch[(row << width) + bucket] - scratch[(row << width) + buckets + bucket];
    bounds[0] = largest, bounds[1] = upper, bounds[2] = lower;
    free(scratch);
    return 0;
}
