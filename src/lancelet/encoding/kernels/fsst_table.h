/* FSST: a table of up to 255 symbols of 1 to 8 bytes, trained on a sample (spec encodings.md 6.7).
 *
 * Matching is greedy. Symbols of 3 bytes and more are found by a hash of their first
 * three, longest first; shorter ones by the two bytes themselves.
 *
 * Training grows the table over a few rounds. Each round encodes part of the sample with the
 * table so far, counts the codes and the pairs of neighbours, and keeps the candidates
 * (symbols, single bytes, pairs joined) that cover the most bytes.
 */
#ifndef LANCELET_FSST_TABLE_H
#define LANCELET_FSST_TABLE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    FSST_SYMBOLS = 255,
    FSST_ESCAPE = 255,
    FSST_HASH = 4096,
    FSST_CROWD = 2,
    FSST_ROUNDS = 5,
    FSST_CODES = 512, /* 0..255 are plain bytes, 256.. the table's symbols */
    FSST_SLOTS = 1 << 16,
};

typedef struct {
    int count;
    uint64_t symbol[256];
    uint64_t mask[256];
    uint8_t length[256];
    int16_t next[256];          /* shorter symbols with the same hash */
    int16_t head[FSST_HASH];    /* longest symbol of 3 and more bytes, or -1 */
    uint16_t two[65536];        /* code | length << 8, for the next two bytes; escape has length 1 */
    uint16_t one[256];
} FsstTable;

typedef struct {
    uint64_t symbol;
    int64_t gain;
    int length;
} FsstCandidate;

static inline uint32_t fsst_hash(uint64_t word) {
    return (uint32_t)(((word & 0xFFFFFF) * 2971215073u) >> 15) & (FSST_HASH - 1);
}

static inline uint64_t fsst_mask(int length) {
    return length >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * length)) - 1;
}

/* Eight bytes at `at`, zeros beyond `end`. */
static inline uint64_t fsst_load(const uint8_t *at, const uint8_t *end) {
    uint64_t word = 0;
    if (end - at >= 8) memcpy(&word, at, 8);
    else memcpy(&word, at, (size_t)(end - at));
    return word;
}

static void fsst_clear(FsstTable *table) {
    table->count = 0;
    memset(table->head, 0xFF, sizeof(table->head));
    for (int i = 0; i < 65536; i++) table->two[i] = FSST_ESCAPE | 1 << 8;
    for (int i = 0; i < 256; i++) table->one[i] = FSST_ESCAPE | 1 << 8;
}

/* A symbol whose hash is crowded already is left out: every match would pay for it. */
static void fsst_add(FsstTable *table, uint64_t symbol, int length) {
    const int code = table->count;
    if (code >= FSST_SYMBOLS) return;
    if (length > 2) {
        int crowd = 0;
        for (int other = table->head[fsst_hash(symbol)]; other >= 0; other = table->next[other]) crowd++;
        if (crowd >= FSST_CROWD) return;
    }
    table->symbol[code] = symbol;
    table->mask[code] = fsst_mask(length);
    table->length[code] = (uint8_t)length;
    table->next[code] = -1;
    table->count++;
    if (length == 1) {
        table->one[symbol] = (uint16_t)(code | 1 << 8);
        for (int i = 0; i < 256; i++) {
            uint16_t *slot = &table->two[symbol | (uint64_t)i << 8];
            if (*slot >> 8 < 2) *slot = (uint16_t)(code | 1 << 8);
        }
    } else if (length == 2) {
        table->two[symbol] = (uint16_t)(code | 2 << 8);
    } else {
        int16_t *link = &table->head[fsst_hash(symbol)];
        while (*link >= 0 && table->length[*link] >= length) link = &table->next[*link];
        table->next[code] = *link;
        *link = (int16_t)code;
    }
}

/* The longest symbol at the start of `left` bytes: code | length << 8. */
static inline uint32_t fsst_find(const FsstTable *table, uint64_t word, int64_t left) {
    int code = table->head[fsst_hash(word)];
    while (code >= 0) {
        if ((word & table->mask[code]) == table->symbol[code] && table->length[code] <= left)
            return (uint32_t)code | (uint32_t)table->length[code] << 8;
        code = table->next[code];
    }
    return left > 1 ? table->two[word & 0xFFFF] : table->one[word & 0xFF];
}

static int fsst_better(const void *a, const void *b) {
    const FsstCandidate *left = (const FsstCandidate *)a, *right = (const FsstCandidate *)b;
    if (left->gain != right->gain) return left->gain < right->gain ? 1 : -1;
    if (left->length != right->length) return right->length - left->length;
    return left->symbol < right->symbol ? -1 : left->symbol > right->symbol;
}

typedef struct {
    FsstTable *table;
    uint32_t *single;           /* FSST_CODES */
    uint32_t *pair;             /* FSST_CODES squared */
    FsstCandidate *candidate;   /* FSST_SLOTS, open addressing */
} FsstTrainer;

static void fsst_offer(FsstTrainer *trainer, uint64_t symbol, int length, int64_t count, int64_t least) {
    if (count < least) return;
    uint64_t slot = (symbol ^ (uint64_t)length << 59) * 0x9E3779B97F4A7C15u;
    slot = (slot ^ slot >> 29) & (FSST_SLOTS - 1);
    for (;;) {
        FsstCandidate *own = &trainer->candidate[slot];
        if (own->length == 0) {
            own->symbol = symbol;
            own->length = length;
            own->gain = count * length;
            return;
        }
        if (own->symbol == symbol && own->length == length) {
            own->gain += count * length;
            return;
        }
        slot = (slot + 1) & (FSST_SLOTS - 1);
    }
}

static void fsst_count(FsstTrainer *trainer, const uint8_t *data, const int64_t *offsets, int64_t strings, int share,
                       int pairs) {
    const FsstTable *table = trainer->table;
    for (int64_t i = 0; i < strings; i++) {
        /* A different part of the sample each round, until the last sees it all. */
        if (share < 128 && (int)((uint32_t)(i * 2654435761u + (uint32_t)share * 40503u) >> 25) > share) continue;
        const uint8_t *at = data + offsets[i], *end = data + offsets[i + 1];
        int before = -1;
        while (at < end) {
            const uint64_t word = fsst_load(at, end);
            const uint32_t found = fsst_find(table, word, end - at);
            const int length = (int)(found >> 8), first = *at;
            const int code = (found & 255) == FSST_ESCAPE ? first : 256 + (int)(found & 255);
            trainer->single[code]++;
            if (length > 1) trainer->single[first]++;
            if (pairs && before >= 0) {
                trainer->pair[before * FSST_CODES + code]++;
                if (length > 1) trainer->pair[before * FSST_CODES + first]++;
            }
            before = code;
            at += length;
        }
    }
}

static void fsst_rebuild(FsstTrainer *trainer, int share, int pairs) {
    FsstTable *table = trainer->table;
    const int64_t least = 5 * share / 128;
    memset(trainer->candidate, 0, FSST_SLOTS * sizeof(FsstCandidate));
    int64_t offered = 0;
    for (int a = 0; a < 256 + table->count; a++) {
        if (trainer->single[a] == 0) continue;
        const uint64_t left = a < 256 ? (uint64_t)a : table->symbol[a - 256];
        const int length = a < 256 ? 1 : table->length[a - 256];
        /* Single bytes spare two-byte escapes, which their length does not show. */
        fsst_offer(trainer, left, length, (int64_t)trainer->single[a] * (length == 1 ? 8 : 1), least);
        if (!pairs || length == 8) continue;
        const uint32_t *row = trainer->pair + a * FSST_CODES;
        for (int b = 0; b < 256 + table->count; b++) {
            if (row[b] == 0 || offered > FSST_SLOTS / 2) continue;
            const uint64_t right = b < 256 ? (uint64_t)b : table->symbol[b - 256];
            const int more = b < 256 ? 1 : table->length[b - 256];
            const int joined = length + more > 8 ? 8 : length + more;
            fsst_offer(trainer, (left | right << (8 * length)) & fsst_mask(joined), joined, row[b], least);
            offered++;
        }
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < FSST_SLOTS; i++)
        if (trainer->candidate[i].length) trainer->candidate[kept++] = trainer->candidate[i];
    qsort(trainer->candidate, (size_t)kept, sizeof(FsstCandidate), fsst_better);
    fsst_clear(table);
    for (int64_t i = 0; i < kept && table->count < FSST_SYMBOLS; i++)
        fsst_add(table, trainer->candidate[i].symbol, trainer->candidate[i].length);
}

/* Train on some strings; 0 when there was no memory. */
static int fsst_train(FsstTable *table, const uint8_t *data, const int64_t *offsets, int64_t strings) {
    static const int shares[FSST_ROUNDS] = {8, 38, 68, 98, 128};
    FsstTrainer trainer = {table, NULL, NULL, NULL};
    trainer.single = (uint32_t *)calloc(FSST_CODES, sizeof(uint32_t));
    trainer.pair = (uint32_t *)calloc((size_t)FSST_CODES * FSST_CODES, sizeof(uint32_t));
    trainer.candidate = (FsstCandidate *)malloc(FSST_SLOTS * sizeof(FsstCandidate));
    fsst_clear(table);
    const int ready = trainer.single && trainer.pair && trainer.candidate;
    for (int round = 0; ready && round < FSST_ROUNDS; round++) {
        const int pairs = round + 1 < FSST_ROUNDS;
        memset(trainer.single, 0, FSST_CODES * sizeof(uint32_t));
        if (pairs) memset(trainer.pair, 0, (size_t)FSST_CODES * FSST_CODES * sizeof(uint32_t));
        fsst_count(&trainer, data, offsets, strings, shares[round], pairs);
        fsst_rebuild(&trainer, shares[round], pairs);
    }
    free(trainer.single);
    free(trainer.pair);
    free(trainer.candidate);
    return ready;
}

/* Encode one string; `out` has room for twice its bytes and one more. Returns the end of the codes.
 * `limit` is the end of readable memory. */
static inline uint8_t *fsst_encode(const FsstTable *table, const uint8_t *at, const uint8_t *end, const uint8_t *limit,
                                   uint8_t *out) {
    while (at < end) {
        const uint64_t word = fsst_load(at, limit);
        const uint32_t found = fsst_find(table, word, end - at);
        out[0] = (uint8_t)found;
        out[1] = *at;
        out += 1 + ((found & 255) == FSST_ESCAPE);
        at += found >> 8;
    }
    return out;
}

#endif
