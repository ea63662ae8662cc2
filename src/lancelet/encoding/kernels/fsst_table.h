/* FSST: a table of up to 255 symbols of 1 to 8 bytes, trained on a sample (spec encodings.md 6.7).
 *
 * Matching is greedy. Symbols of 3 bytes and more are found by a hash of their first
 * three, longest first; shorter ones by the two bytes themselves. All places where the next
 * symbol may be are looked at whatever they hold, since a jump that the processor cannot
 * foresee costs more; and strings are encoded four at a time, since each code has to wait
 * for the one before it.
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
    FSST_LANES = 4,
    FSST_ROUNDS = 5,
    FSST_CODES = 512, /* 0..255 are plain bytes, 256.. the table's symbols */
    FSST_SLOTS = 1 << 16,
};

typedef struct {
    int count;
    uint64_t symbol[256];       /* that of the escape matches nothing */
    uint64_t mask[256];
    uint8_t length[256];
    uint16_t long_codes[FSST_HASH]; /* up to two symbols of 3 and more bytes, the longer one in the low byte */
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
    table->symbol[FSST_ESCAPE] = 1;
    table->mask[FSST_ESCAPE] = 0;
    table->length[FSST_ESCAPE] = 1;
    memset(table->long_codes, FSST_ESCAPE, sizeof(table->long_codes));
    for (int i = 0; i < 65536; i++) table->two[i] = FSST_ESCAPE | 1 << 8;
    for (int i = 0; i < 256; i++) table->one[i] = FSST_ESCAPE | 1 << 8;
}

/* A symbol whose hash is crowded already is left out: every match would pay for it. */
static void fsst_add(FsstTable *table, uint64_t symbol, int length) {
    const int code = table->count;
    if (code >= FSST_SYMBOLS) return;
    uint16_t *codes = &table->long_codes[fsst_hash(symbol)];
    if (length > 2 && *codes >> 8 != FSST_ESCAPE) return;
    table->symbol[code] = symbol;
    table->mask[code] = fsst_mask(length);
    table->length[code] = (uint8_t)length;
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
        const int other = *codes & 255;
        const int after = other != FSST_ESCAPE && table->length[other] >= length;
        *codes = (uint16_t)(after ? other | code << 8 : code | other << 8);
    }
}

/* The longest symbol at the start of `left` bytes: code | length << 8. */
static inline uint32_t fsst_find(const FsstTable *table, uint64_t word, int64_t left) {
    const uint32_t codes = table->long_codes[fsst_hash(word)], a = codes & 255, b = codes >> 8;
    const int64_t length_a = table->length[a], length_b = table->length[b];
    const uint32_t is_a = (uint32_t)((word & table->mask[a]) == table->symbol[a]) & (uint32_t)(length_a <= left);
    const uint32_t is_b = (uint32_t)((word & table->mask[b]) == table->symbol[b]) & (uint32_t)(length_b <= left);
    uint32_t found = left > 1 ? table->two[word & 0xFFFF] : table->one[word & 0xFF];
    found ^= (found ^ (b | (uint32_t)length_b << 8)) & (0 - is_b);
    found ^= (found ^ (a | (uint32_t)length_a << 8)) & (0 - is_a);
    return found;
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
    FsstCandidate *candidate;   /* FSST_SLOTS, open addressing; a length of 0 is a free slot */
    FsstCandidate *sorted;      /* FSST_SLOTS */
    uint32_t *taken;            /* FSST_SLOTS, the slots that are not free */
    int64_t count;              /* of those */
} FsstTrainer;

static void fsst_offer(FsstTrainer *trainer, uint64_t symbol, int length, int64_t count, int64_t least) {
    if (count < least) return;
    uint64_t slot = (symbol ^ (uint64_t)length << 59) * 0x9E3779B97F4A7C15u;
    slot = (slot ^ slot >> 29) & (FSST_SLOTS - 1);
    for (;;) {
        FsstCandidate *own = &trainer->candidate[slot];
        if (own->length == 0) {
            trainer->taken[trainer->count++] = (uint32_t)slot;
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
    int used[FSST_CODES], codes = 0;
    for (int a = 0; a < 256 + table->count; a++)
        if (trainer->single[a]) used[codes++] = a;
    int64_t offered = 0;
    trainer->count = 0;
    for (int i = 0; i < codes; i++) {
        const int a = used[i];
        const uint64_t left = a < 256 ? (uint64_t)a : table->symbol[a - 256];
        const int length = a < 256 ? 1 : table->length[a - 256];
        /* Single bytes spare two-byte escapes, which their length does not show. */
        fsst_offer(trainer, left, length, (int64_t)trainer->single[a] * (length == 1 ? 8 : 1), least);
        if (!pairs) continue;
        /* Counts are taken out of the table, so that it is empty for the next round. */
        uint32_t *row = trainer->pair + a * FSST_CODES;
        for (int j = 0; j < codes; j++) {
            const int b = used[j];
            const uint32_t count = row[b];
            row[b] = 0;
            if (count == 0 || length == 8 || offered > FSST_SLOTS / 2) continue;
            const uint64_t right = b < 256 ? (uint64_t)b : table->symbol[b - 256];
            const int more = b < 256 ? 1 : table->length[b - 256];
            const int joined = length + more > 8 ? 8 : length + more;
            fsst_offer(trainer, (left | right << (8 * length)) & fsst_mask(joined), joined, count, least);
            offered++;
        }
    }
    for (int64_t i = 0; i < trainer->count; i++) {
        FsstCandidate *own = &trainer->candidate[trainer->taken[i]];
        trainer->sorted[i] = *own;
        own->length = 0;
    }
    qsort(trainer->sorted, (size_t)trainer->count, sizeof(FsstCandidate), fsst_better);
    fsst_clear(table);
    for (int64_t i = 0; i < trainer->count && table->count < FSST_SYMBOLS; i++)
        fsst_add(table, trainer->sorted[i].symbol, trainer->sorted[i].length);
}

/* Train on some strings; 0 when there was no memory. */
static int fsst_train(FsstTable *table, const uint8_t *data, const int64_t *offsets, int64_t strings) {
    static const int shares[FSST_ROUNDS] = {8, 38, 68, 98, 128};
    FsstTrainer trainer = {table, NULL, NULL, NULL, NULL, NULL, 0};
    trainer.single = (uint32_t *)calloc(FSST_CODES, sizeof(uint32_t));
    trainer.pair = (uint32_t *)calloc((size_t)FSST_CODES * FSST_CODES, sizeof(uint32_t));
    trainer.candidate = (FsstCandidate *)calloc(FSST_SLOTS, sizeof(FsstCandidate));
    trainer.sorted = (FsstCandidate *)malloc(FSST_SLOTS * sizeof(FsstCandidate));
    trainer.taken = (uint32_t *)malloc(FSST_SLOTS * sizeof(uint32_t));
    fsst_clear(table);
    const int ready = trainer.single && trainer.pair && trainer.candidate && trainer.sorted && trainer.taken;
    for (int round = 0; ready && round < FSST_ROUNDS; round++) {
        const int pairs = round + 1 < FSST_ROUNDS;
        memset(trainer.single, 0, FSST_CODES * sizeof(uint32_t));
        fsst_count(&trainer, data, offsets, strings, shares[round], pairs);
        fsst_rebuild(&trainer, shares[round], pairs);
    }
    free(trainer.single);
    free(trainer.pair);
    free(trainer.candidate);
    free(trainer.sorted);
    free(trainer.taken);
    return ready;
}

static inline int64_t fsst_offset(const void *offsets, int wide, int64_t i) {
    return wide ? ((const int64_t *)offsets)[i] : ((const int32_t *)offsets)[i];
}

typedef struct {
    const FsstTable *table;
    const void *offsets;
    int wide;
    const uint8_t *data, *limit, *ahead;    /* before `ahead`, 8 bytes can be read */
    int64_t *ends;                          /* where the codes of each string end, from the start of its lane */
} FsstPage;

/* Neighbouring strings of a page, and how far their encoding is. */
typedef struct {
    const uint8_t *at, *end, *stop;         /* of the string at hand; stop is the end or `ahead` */
    uint8_t *out, *base;
    int64_t string, last;
} FsstLane;

static inline void fsst_step(const FsstTable *table, FsstLane *lane, uint64_t word) {
    const uint32_t found = fsst_find(table, word, lane->end - lane->at);
    lane->out[0] = (uint8_t)found;
    lane->out[1] = (uint8_t)word;
    lane->out += 1 + ((found & 255) == FSST_ESCAPE);
    lane->at += found >> 8;
}

/* Go on to a string with bytes left; 0 when there is none, or not enough to read ahead. */
static inline int fsst_next(const FsstPage *page, FsstLane *lane) {
    while (lane->string < lane->last && lane->at == lane->end) {
        page->ends[lane->string++] = lane->out - lane->base;
        if (lane->string < lane->last)
            lane->end = page->data + fsst_offset(page->offsets, page->wide, lane->string + 1);
    }
    lane->stop = page->ahead < lane->end ? page->ahead : lane->end;
    return lane->string < lane->last && lane->at < lane->stop;
}

static inline int fsst_turn(const FsstPage *page, FsstLane *lane) {
    if (lane->at >= lane->stop && !fsst_next(page, lane)) return 0;
    uint64_t word;
    memcpy(&word, lane->at, 8);
    fsst_step(page->table, lane, word);
    return 1;
}

/* Encode `count` strings, whose offsets ascend; `out` has room for twice their bytes. Returns the bytes used;
 * ends[i] is where the codes of string i end. */
static int64_t fsst_encode(const FsstTable *table, const void *offsets, int wide, int64_t count, const uint8_t *data,
                           int64_t size, int64_t *ends, uint8_t *out) {
    const FsstPage page = {table, offsets, wide, data, data + size, size < 8 ? data : data + size - 7, ends};
    const int64_t start = fsst_offset(offsets, wide, 0), total = fsst_offset(offsets, wide, count) - start;
    FsstLane lanes[FSST_LANES];
    int64_t first = 0;
    for (int k = 0; k < FSST_LANES; k++) {
        int64_t last = first, high = count;
        while (last < high) {
            const int64_t middle = (last + high) / 2;
            if (fsst_offset(offsets, wide, middle) - start < total / FSST_LANES * (k + 1)) last = middle + 1;
            else high = middle;
        }
        if (k == FSST_LANES - 1) last = count;
        const int64_t from = fsst_offset(offsets, wide, first);
        const int64_t to = first < last ? fsst_offset(offsets, wide, first + 1) : from;
        uint8_t *base = out + 2 * (from - start);
        const FsstLane lane = {data + from, data + to, data + from, base, base, first, last};
        lanes[k] = lane;
        first = last;
    }
    FsstLane a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
    while (fsst_turn(&page, &a) && fsst_turn(&page, &b) && fsst_turn(&page, &c) && fsst_turn(&page, &d)) {}
    lanes[0] = a, lanes[1] = b, lanes[2] = c, lanes[3] = d;
    uint8_t *used = out;
    for (int k = 0; k < FSST_LANES; k++) {
        FsstLane *lane = &lanes[k];
        const int64_t before = k ? lanes[k - 1].last : 0;
        while (lane->string < lane->last) {
            while (lane->at < lane->end) fsst_step(table, lane, fsst_load(lane->at, page.limit));
            fsst_next(&page, lane);
        }
        const int64_t length = lane->out - lane->base;
        memmove(used, lane->base, (size_t)length);
        for (int64_t i = before; i < lane->last; i++) ends[i] += used - out;
        used += length;
    }
    return used - out;
}

#endif
