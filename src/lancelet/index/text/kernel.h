/* The best documents of a partition for some terms (spec indices.md 10.8). Plain C; kernel.pyx checks sizes before.
 *
 * A cursor goes through the documents of a term, block by block, and passes over blocks that are not needed: those whose best
 * score, with the best of all others, is no better than the worst document that is kept.
 *
 *   one term           its best blocks tell what a document has to exceed, then all blocks that may have such are looked at
 *   any of the terms   windows of documents; terms whose bounds together do not reach the limit are only looked at for
 *                      documents that others bring (MaxScore)
 *   all of the terms   the rarest leads, the others follow
 *   groups of terms    at least one of each: counted document by document
 *
 * Scores are weight * 2.2 f / (f + norm): f is how often the term is in the document, norm = 1.2 (0.25 + 0.75 length / mean
 * length). Of documents with the same score those that come first are kept.
 */
#ifndef LANCELET_TEXT_KERNEL_H
#define LANCELET_TEXT_KERNEL_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"

#define LC_END UINT32_MAX
#define LC_OPTIONAL (-1)
#define LC_EXCLUDED (-2)
#define LC_CHUNK 4096
#define LC_NARROW 512
/* A term in more than one of so many documents is common. */
#define LC_COMMON 24
#define LC_LEAST_WINDOW 256
/* Up to so many documents that are wanted, it is found out first what they have to exceed. */
#define LC_MOST_SEEDS 128
#define LC_PLAIN_BLOCK 128
#define LC_BAD (-1)
#define LC_NO_MEMORY (-2)
/* What bounds are raised by, so that no rounding makes them too low. */
#define LC_SLACK 1.00001f

/* A term of a partition, as it is kept. */

typedef struct {
    const uint8_t *blocks;
    const int64_t *offsets; /* of blocks, and their end */
    const uint32_t *firsts; /* the first document of each block */
    const float *bounds;    /* the best of each block, without the weight; NULL: 2.2 */
    const uint32_t *plain_docs, *plain_freqs; /* instead of blocks */
    const uint8_t *positions;
    const int64_t *position_offsets;  /* for each block, and their end */
    const uint32_t *plain_positions;
    const int64_t *plain_starts;      /* for each document, and their end */
    int64_t block_count, length;
    int block, tail;
} lc_term;

typedef struct {
    const lc_term *term;
    float weight, most; /* most: the best score of all documents */
    int group;
    const uint32_t *doc, *freq; /* of the block that is open */
    int count, at, has_freqs;
    int64_t open;      /* the block, or -1 */
    int64_t freq_at;
    int64_t window;    /* the block that the last window began in */
    uint32_t *spread;  /* steps between positions of the open block, group by group */
    int64_t *starts;   /* of its documents in these */
    int64_t *places;   /* of groups in the bytes, or -1 for those that were unpacked */
    uint32_t *here;    /* positions in the document that the cursor is at */
    int64_t spread_room, spread_of, places_room;
    uint32_t docs[LC_MOST_BLOCK + 8], freqs[LC_MOST_BLOCK + 8];
} lc_cursor;

typedef struct {
    const int32_t *cursors;
    const int64_t *offsets;
    int32_t count;
    int64_t slop;
} lc_phrase;

typedef struct {
    lc_cursor *cursors;
    int count, groups;
    const lc_phrase *phrases;
    int phrase_count;
    const float *norm;
    const uint8_t *keep; /* a byte for each document, or NULL */
    uint32_t documents;
    /* what was found: a heap with the worst on top, or all of them where there is no limit */
    int64_t limit, size, room;
    float *scores;
    uint32_t *found;
    float least; /* the score that a document has to exceed */
    uint32_t *reach, *reached; /* positions of phrases */
    int64_t reach_room;
    int error;
} lc_search;

/* Documents that were found. */

static inline int lc_worse(float score, uint32_t doc, float other, uint32_t other_doc) {
    return score < other || (score == other && doc > other_doc);
}

static void lc_push(lc_search *s, float score, uint32_t doc) {
    if (s->limit < 0 || s->size < s->limit) {
        if (s->size == s->room) {
            int64_t room = s->room ? s->room * 2 : 1024;
            if (s->limit >= 0 && room > s->limit) room = s->limit;
            float *scores = realloc(s->scores, (size_t)room * sizeof(float));
            if (scores) s->scores = scores;
            uint32_t *found = realloc(s->found, (size_t)room * sizeof(uint32_t));
            if (found) s->found = found;
            if (!scores || !found) {
                s->error = LC_NO_MEMORY;
                return;
            }
            s->room = room;
        }
        int64_t at = s->size++;
        if (s->limit >= 0) {
            while (at > 0 && lc_worse(score, doc, s->scores[(at - 1) / 2], s->found[(at - 1) / 2])) {
                s->scores[at] = s->scores[(at - 1) / 2];
                s->found[at] = s->found[(at - 1) / 2];
                at = (at - 1) / 2;
            }
            if (s->size == s->limit) {
                s->scores[at] = score, s->found[at] = doc;
                if (s->scores[0] > s->least) s->least = s->scores[0];
                return;
            }
        }
        s->scores[at] = score, s->found[at] = doc;
        return;
    }
    if (!(score > s->least)) return;
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= s->size) break;
        if (child + 1 < s->size &&
            lc_worse(s->scores[child + 1], s->found[child + 1], s->scores[child], s->found[child]))
            child++;
        if (!lc_worse(s->scores[child], s->found[child], score, doc)) break;
        s->scores[at] = s->scores[child], s->found[at] = s->found[child];
        at = child;
    }
    s->scores[at] = score, s->found[at] = doc;
    if (s->scores[0] > s->least) s->least = s->scores[0];
}

/* The best first, and of equal ones the first; without a limit they are left as they are. */

static void lc_put_in_order(lc_search *s) {
    if (s->limit < 0) return;
    for (int64_t size = s->size - 1; size > 0; size--) {
        const float score = s->scores[size];
        const uint32_t doc = s->found[size];
        int64_t at = 0;
        s->scores[size] = s->scores[0], s->found[size] = s->found[0];
        for (;;) {
            int64_t child = 2 * at + 1;
            if (child >= size) break;
            if (child + 1 < size &&
                lc_worse(s->scores[child + 1], s->found[child + 1], s->scores[child], s->found[child]))
                child++;
            if (!lc_worse(s->scores[child], s->found[child], score, doc)) break;
            s->scores[at] = s->scores[child], s->found[at] = s->found[child];
            at = child;
        }
        s->scores[at] = score, s->found[at] = doc;
    }
}

/* Cursors. */

static void lc_free_cursor(lc_cursor *c) {
    free(c->spread);
    free(c->starts);
    free(c->places);
    free(c->here);
}

static int lc_open_block(lc_search *s, lc_cursor *c, int64_t b) {
    const lc_term *t = c->term;
    int64_t left = t->length - b * t->block;
    c->open = b;
    c->at = 0;
    c->count = left < t->block ? (int)left : t->block;
    if (t->plain_docs) {
        c->doc = t->plain_docs + b * t->block;
        c->freq = t->plain_freqs + b * t->block;
        c->has_freqs = 1;
    } else {
        c->doc = c->docs, c->freq = c->freqs, c->has_freqs = 0;
        c->freq_at = lc_block_docs(
            t->blocks + t->offsets[b], t->offsets[b + 1] - t->offsets[b], t->block, c->count, t->tail, c->docs
        );
        if (c->freq_at < 0) {
            s->error = LC_BAD;
            return 0;
        }
    }
    if (c->doc[c->count - 1] >= s->documents || c->doc[0] < t->firsts[b] ||
        (b + 1 < t->block_count && c->doc[c->count - 1] >= t->firsts[b + 1])) {
        s->error = LC_BAD;
        return 0;
    }
    return 1;
}

static inline int lc_freqs(lc_search *s, lc_cursor *c) {
    if (c->has_freqs) return 1;
    const lc_term *t = c->term;
    int64_t begin = t->offsets[c->open];
    if (lc_block_freqs(
            t->blocks + begin, t->offsets[c->open + 1] - begin, c->freq_at, t->block, c->count, t->tail, c->freqs
        ) < 0) {
        s->error = LC_BAD;
        return 0;
    }
    c->has_freqs = 1;
    return 1;
}

/* The last block that begins at a document or before it, from ``from`` on; ``from`` itself where none does. */

static inline int64_t lc_block_of(const lc_term *t, uint32_t doc, int64_t from) {
    int64_t low = from, step = 1;
    while (low + step < t->block_count && t->firsts[low + step] <= doc) low += step, step *= 2;
    int64_t high = low + step < t->block_count ? low + step : t->block_count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (t->firsts[middle] <= doc) low = middle;
        else high = middle;
    }
    return low;
}

/* The first document from ``target`` on; cursors go forward only. */

static uint32_t lc_seek(lc_search *s, lc_cursor *c, uint32_t target) {
    const lc_term *t = c->term;
    if (c->open >= t->block_count) return LC_END;
    if (c->open < 0 || c->doc[c->count - 1] < target) {
        int64_t from = c->open < 0 ? 0 : c->open;
        int64_t b = lc_block_of(t, target, from);
        if (b != c->open && !lc_open_block(s, c, b)) return LC_END;
        if (c->doc[c->count - 1] < target) {
            if (b + 1 >= t->block_count) {
                c->open = t->block_count;
                return LC_END;
            }
            if (!lc_open_block(s, c, b + 1)) return LC_END;
        }
    }
    int low = c->at;
    if (c->doc[low] >= target) return c->doc[low];
    /* The last of the block is not before the target, so that a step is always there. */
    for (int near = 0; near < 4; near++)
        if (c->doc[++low] >= target) {
            c->at = low;
            return c->doc[low];
        }
    int step = 1;
    while (low + step < c->count && c->doc[low + step] < target) low += step, step *= 2;
    int high = low + step < c->count ? low + step : c->count - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (c->doc[middle] < target) low = middle;
        else high = middle;
    }
    c->at = high;
    return c->doc[high];
}

static inline float lc_score(lc_search *s, lc_cursor *c) {
    if (!lc_freqs(s, c)) return 0;
    float f = (float)c->freq[c->at];
    return c->weight * (2.2f * (f / (f + s->norm[c->doc[c->at]])));
}

/* The scores of some documents of the open block, whose frequencies are there; several at a time. */

static inline void lc_scores(const lc_search *s, const lc_cursor *c, int from, int until, float *out) {
    const float weight = c->weight;
    float norm[LC_MOST_BLOCK];
    for (int i = from; i < until; i++) norm[i - from] = s->norm[c->doc[i]];
    for (int i = 0; i < until - from; i++) {
        float f = (float)(int32_t)c->freq[from + i];
        out[i] = weight * (2.2f * (f / (f + norm[i])));
    }
}

/* The end of the documents of the open block that come before one. */

static inline int lc_until(const lc_cursor *c, uint32_t stop) {
    if (c->doc[c->count - 1] < stop) return c->count;
    int low = c->at, high = c->count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (c->doc[middle] < stop) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Where the block ends, for bounds, that a document is in or before. ``bound`` is its best score. */

static inline uint32_t lc_block_end(const lc_search *s, lc_cursor *c, uint32_t doc, float *bound) {
    const lc_term *t = c->term;
    if (doc < t->firsts[0]) {
        *bound = 0;
        return t->firsts[0];
    }
    c->window = lc_block_of(t, doc, c->window);
    *bound = c->weight * (t->bounds ? t->bounds[c->window] : 2.2f);
    return c->window + 1 < t->block_count ? t->firsts[c->window + 1] : s->documents;
}

/* The best score from the window's block on, before document ``end``. */

static inline float lc_bound_until(lc_cursor *c, uint32_t begin, uint32_t end) {
    const lc_term *t = c->term;
    if (end <= t->firsts[0]) return 0;
    if (!t->bounds) return c->weight * 2.2f;
    if (begin >= t->firsts[0]) c->window = lc_block_of(t, begin, c->window);
    float best = t->bounds[c->window];
    for (int64_t b = c->window + 1; b < t->block_count && t->firsts[b] < end; b++)
        if (t->bounds[b] > best) best = t->bounds[b];
    return c->weight * best;
}

/* Phrases. */

static int lc_open_positions(lc_search *s, lc_cursor *c) {
    const lc_term *t = c->term;
    int64_t total = 0, begin = t->position_offsets[c->open], size = t->position_offsets[c->open + 1] - begin;
    if (!c->starts && !(c->starts = malloc((LC_MOST_BLOCK + 1) * sizeof(int64_t)))) return s->error = LC_NO_MEMORY;
    for (int i = 0; i < c->count; i++) {
        c->starts[i] = total;
        total += c->freqs[i];
    }
    c->starts[c->count] = total;
    /* A group of 128 takes a byte at least, and so does each of the rest. */
    if (total / 128 + total % 128 > size) return s->error = LC_BAD;
    int64_t groups = total / 128 + 1;
    if (groups * 128 > c->spread_room) {
        uint32_t *room = realloc(c->spread, (size_t)groups * 128 * sizeof(uint32_t));
        if (room) c->spread = room;
        int64_t *places = realloc(c->places, (size_t)groups * sizeof(int64_t));
        if (places) c->places = places;
        if (!room || !places) return s->error = LC_NO_MEMORY;
        c->spread_room = groups * 128;
    }
    /* Where each group begins; those that were unpacked have a place below 0. */
    int64_t at = 0;
    for (int64_t g = 0; g < total / 128; g++) {
        c->places[g] = at;
        if (at >= size || t->positions[begin + at] > 32) return s->error = LC_BAD;
        at += 1 + (int64_t)t->positions[begin + at] * 16;
        if (at > size) return s->error = LC_BAD;
    }
    c->places[total / 128] = at;
    c->spread_of = c->open;
    return 0;
}

/* Unpack a group that was not unpacked before. */

static int lc_open_group(lc_search *s, lc_cursor *c, int64_t g) {
    const lc_term *t = c->term;
    int64_t begin = t->position_offsets[c->open], size = t->position_offsets[c->open + 1] - begin;
    int64_t at = c->places[g], total = c->starts[c->count], first = g * 128;
    const uint8_t *data = t->positions + begin;
    if (first + 128 <= total) lc_unpack4(data + at + 1, data[at], c->spread + first);
    else
        for (int64_t i = first; i < total; i++) {
            at = lc_read_varint(data, size, at, c->spread + i);
            if (at < 0) return s->error = LC_BAD;
        }
    c->places[g] = -1;
    return 0;
}

/* The positions of the document that a cursor is at; a step from 0 each, until they are asked for. */

static int lc_spread(lc_search *s, lc_cursor *c, const uint32_t **list, int64_t *count) {
    const lc_term *t = c->term;
    if (t->plain_positions) {
        int64_t at = c->open * t->block + c->at;
        *list = t->plain_positions + t->plain_starts[at];
        *count = t->plain_starts[at + 1] - t->plain_starts[at];
        return 1;
    }
    if (!lc_freqs(s, c)) return 0;
    if (c->spread_of != c->open && lc_open_positions(s, c)) return 0;
    int64_t from = c->starts[c->at], until = c->starts[c->at + 1];
    for (int64_t g = from / 128; g * 128 < until; g++)
        if (c->places[g] >= 0 && lc_open_group(s, c, g)) return 0;
    if (until - from > c->places_room) {
        uint32_t *room = realloc(c->here, (size_t)(until - from) * sizeof(uint32_t));
        if (!room) {
            s->error = LC_NO_MEMORY;
            return 0;
        }
        c->here = room, c->places_room = until - from;
    }
    uint64_t position = 0;
    for (int64_t i = from; i < until; i++) {
        position += c->spread[i];
        c->here[i - from] = (uint32_t)position;
    }
    /* They ascend, and the sum of fewer than 2^32 steps of 32 bits has its place. */
    if (position > UINT32_MAX) {
        s->error = LC_BAD;
        return 0;
    }
    *list = c->here;
    *count = until - from;
    return 1;
}

/* Whether the words of a phrase follow each other in the document that all its cursors are at: one place for each word, less
 * the word's own place in the phrase, where each is as large as that of the word before or up to ``slop`` larger. Of each word
 * in the middle the places that are reached are kept; of the last one it is enough that there is one. */

static int lc_phrase_there(lc_search *s, const lc_phrase *p, lc_cursor *cursors) {
    const uint32_t *before;
    int64_t before_count;
    if (!lc_spread(s, cursors + p->cursors[0], &before, &before_count)) return 0;
    for (int32_t i = 1; i < p->count; i++) {
        const uint32_t *list;
        const int64_t apart = p->offsets[i] - p->offsets[i - 1], slop = p->slop;
        const int is_last = i + 1 == p->count;
        int64_t count, kept = 0, from = 0;
        if (!lc_spread(s, cursors + p->cursors[i], &list, &count)) return 0;
        if (!is_last && count > s->reach_room) {
            /* What was reached before may lie in the buffer that is not written now. */
            uint32_t *reached = realloc(s->reached, (size_t)count * sizeof(uint32_t));
            if (reached) s->reached = reached;
            const int is_held = before == s->reach;
            uint32_t *reach = realloc(s->reach, (size_t)count * sizeof(uint32_t));
            if (reach) {
                s->reach = reach;
                if (is_held) before = reach;
            }
            if (!reach || !reached) {
                s->error = LC_NO_MEMORY;
                return 0;
            }
            s->reach_room = count;
        }
        for (int64_t k = 0; k < count; k++) {
            const int64_t place = (int64_t)list[k] - apart;
            while (from < before_count && before[from] < place - slop) from++;
            if (from == before_count) break;
            if (before[from] > place) continue;
            if (is_last) return 1;
            s->reached[kept++] = list[k];
        }
        if (!kept) return 0;
        uint32_t *swap = s->reach;
        s->reach = s->reached, s->reached = swap;
        before = s->reach, before_count = kept;
    }
    return before_count > 0;
}

/* What is left to do for a document that has what it needs: optional terms, excluded ones, the limit. */

static inline void lc_finish(lc_search *s, uint32_t doc, float score) {
    for (int i = 0; i < s->count; i++) {
        lc_cursor *c = s->cursors + i;
        if (c->group >= 0) continue;
        if (lc_seek(s, c, doc) == doc) {
            if (c->group == LC_EXCLUDED) return;
            score += lc_score(s, c);
        }
    }
    if (!s->error) lc_push(s, score, doc);
}

/* The most that optional terms can add. */

static float lc_optional_most(const lc_search *s) {
    float most = 0;
    for (int i = 0; i < s->count; i++)
        if (s->cursors[i].group == LC_OPTIONAL && s->cursors[i].most > 0) most += s->cursors[i].most;
    return most;
}

/* A list of the greatest numbers, and what they belong to; the least is first. */

typedef struct {
    float values[LC_MOST_SEEDS];
    int64_t owners[LC_MOST_SEEDS];
    int size, room;
} lc_greatest;

static inline void lc_keep(lc_greatest *list, float value, int64_t owner) {
    int at;
    if (list->size < list->room) {
        at = list->size++;
        for (; at > 0 && list->values[at - 1] > value; at--)
            list->values[at] = list->values[at - 1], list->owners[at] = list->owners[at - 1];
    } else {
        if (!(value > list->values[0])) return;
        for (at = 0; at + 1 < list->size && list->values[at + 1] < value; at++)
            list->values[at] = list->values[at + 1], list->owners[at] = list->owners[at + 1];
    }
    list->values[at] = value, list->owners[at] = owner;
}

/* A score that as many documents of a term reach as are wanted: those of its best blocks are looked at. */

static float lc_seed(lc_search *s, const lc_cursor *c) {
    const lc_term *t = c->term;
    if (!t->bounds || t->length < s->limit) return -INFINITY;
    lc_greatest blocks = {.size = 0, .room = (int)s->limit}, best = {.size = 0, .room = (int)s->limit};
    lc_cursor probe;
    float scores[LC_MOST_BLOCK];
    probe.term = t, probe.weight = c->weight;
    for (int64_t b = 0; b < t->block_count; b++) lc_keep(&blocks, t->bounds[b], b);
    for (int i = blocks.size - 1; i >= 0; i--) {
        if (best.size == best.room && blocks.values[i] * c->weight * LC_SLACK <= best.values[0]) break;
        if (!lc_open_block(s, &probe, blocks.owners[i]) || !lc_freqs(s, &probe)) return -INFINITY;
        lc_scores(s, &probe, 0, probe.count, scores);
        for (int k = 0; k < probe.count; k++)
            if (!s->keep || s->keep[probe.doc[k]]) lc_keep(&best, scores[k], 0);
    }
    return best.size == best.room ? best.values[0] : -INFINITY;
}

/* One term: its best blocks tell what a document has to exceed, then its blocks are gone through in order. */

static void lc_one(lc_search *s, lc_cursor *c) {
    const lc_term *t = c->term;
    float scores[LC_MOST_BLOCK];
    if (s->limit > 0 && s->limit <= LC_MOST_SEEDS && c->weight >= 0) {
        /* The next number below it, so that documents with just this score are found. */
        s->least = nextafterf(lc_seed(s, c), -INFINITY);
        if (s->error) return;
    }
    for (int64_t b = 0; b < t->block_count; b++) {
        if (t->bounds && c->weight >= 0 && t->bounds[b] * c->weight * LC_SLACK <= s->least) continue;
        if (!lc_open_block(s, c, b) || !lc_freqs(s, c)) return;
        lc_scores(s, c, 0, c->count, scores);
        for (int k = 0; k < c->count; k++)
            if (scores[k] > s->least && (!s->keep || s->keep[c->doc[k]])) {
                lc_push(s, scores[k], c->doc[k]);
                if (s->error) return;
            }
    }
}

/* Any of the terms. */

static void lc_any(lc_search *s) {
    lc_cursor **terms = malloc((size_t)s->count * 2 * sizeof(lc_cursor *));
    float *bounds = malloc((size_t)(s->count * 2 + 2) * sizeof(float));
    float *sums = bounds ? bounds + s->count : NULL, *chunk = malloc(LC_CHUNK * sizeof(float));
    uint64_t marks[LC_CHUNK / 64];
    float scores[LC_MOST_BLOCK];
    if (!terms || !bounds || !chunk) {
        s->error = LC_NO_MEMORY;
        goto done;
    }
    int n = 0;
    for (int i = 0; i < s->count; i++)
        if (s->cursors[i].group >= 0) terms[n++] = s->cursors + i;
    for (int i = 1; i < n; i++) {
        lc_cursor *c = terms[i];
        int j = i;
        for (; j > 0 && terms[j - 1]->most > c->most; j--) terms[j] = terms[j - 1];
        terms[j] = c;
    }
    lc_cursor **order = terms + s->count;
    const float more = lc_optional_most(s);
    memset(chunk, 0, LC_CHUNK * sizeof(float));
    memset(marks, 0, sizeof marks);
    uint32_t low = 0, end = s->documents;
    while (low < end && !s->error) {
        const float least = s->least;
        uint32_t high = end;
        int first = 0;
        if (least > -INFINITY) {
            float sum = more;
            while (first < n && (sum + terms[first]->most) * LC_SLACK <= least) sum += terms[first++]->most;
            if (first == n) break;
            for (int i = first; i < n; i++) {
                float ignored;
                uint32_t stop = lc_block_end(s, terms[i], low, &ignored);
                if (stop < high) high = stop;
            }
            if (high - low < LC_LEAST_WINDOW) high = end - low < LC_LEAST_WINDOW ? end : low + LC_LEAST_WINDOW;
            for (int i = 0; i < n; i++) {
                float bound = lc_bound_until(terms[i], low, high);
                int j = i;
                for (; j > 0 && bounds[j - 1] > bound; j--) bounds[j] = bounds[j - 1], order[j] = order[j - 1];
                bounds[j] = bound, order[j] = terms[i];
            }
            sums[0] = more;
            first = 0;
            for (int i = 0; i < n; i++) {
                sums[i + 1] = sums[i] + bounds[i];
                if (sums[i + 1] * LC_SLACK <= least) first = i + 1;
            }
            if (first == n) {
                low = high;
                continue;
            }
        } else {
            memcpy(order, terms, (size_t)n * sizeof(lc_cursor *));
            /* Until the limit is known, a window must not be too long to learn it. */
            if (s->limit >= 0 && high - low > LC_CHUNK) high = low + (s->limit < LC_CHUNK / 16 ? LC_CHUNK / 8 : LC_CHUNK);
        }
        if (first == n - 1) {
            lc_cursor *c = order[first];
            uint32_t doc = lc_seek(s, c, low);
            while (doc < high && !s->error) {
                if (!s->keep || s->keep[doc]) {
                    float score = lc_score(s, c);
                    int j = first - 1;
                    for (; j >= 0; j--) {
                        if ((score + sums[j + 1]) * LC_SLACK <= s->least) break;
                        if (lc_seek(s, order[j], doc) == doc) score += lc_score(s, order[j]);
                    }
                    if (j < 0 && ((score + more) * LC_SLACK > s->least))
                        lc_finish(s, doc, score);
                }
                if (++c->at < c->count) doc = c->doc[c->at];
                else {
                    c->at--;
                    doc = lc_seek(s, c, doc + 1);
                }
            }
            low = high;
            continue;
        }
        while (low < high && !s->error) {
            uint32_t next = LC_END;
            for (int i = first; i < n; i++) {
                uint32_t doc = lc_seek(s, order[i], low);
                if (doc < next) next = doc;
            }
            if (next >= high || s->error) break;
            low = next;
            uint32_t stop = high - low < LC_CHUNK ? high : low + LC_CHUNK;
            for (int i = n - 1; i >= first; i--) {
                lc_cursor *c = order[i];
                uint32_t doc = lc_seek(s, c, low);
                while (doc < stop) {
                    if (!lc_freqs(s, c)) goto done;
                    const int from = c->at, at = lc_until(c, stop);
                    lc_scores(s, c, from, at, scores);
                    for (int k = from; k < at; k++) {
                        uint32_t place = c->doc[k] - low;
                        chunk[place] += scores[k - from];
                        marks[place >> 6] |= (uint64_t)1 << (place & 63);
                    }
                    if (at < c->count) {
                        c->at = at;
                        break;
                    }
                    c->at = c->count - 1;
                    doc = lc_seek(s, c, c->doc[c->at] + 1);
                    if (s->error) goto done;
                }
            }
            for (uint32_t w = 0; w < (stop - low + 63) / 64; w++) {
                uint64_t bits = marks[w];
                marks[w] = 0;
                while (bits) {
                    uint32_t place = w * 64 + (uint32_t)__builtin_ctzll(bits), doc = low + place;
                    bits &= bits - 1;
                    float score = chunk[place];
                    chunk[place] = 0;
                    if (s->keep && !s->keep[doc]) continue;
                    int j = first - 1;
                    for (; j >= 0; j--) {
                        if ((score + sums[j + 1]) * LC_SLACK <= s->least) break;
                        if (lc_seek(s, order[j], doc) == doc) score += lc_score(s, order[j]);
                    }
                    if (j < 0 && ((score + more) * LC_SLACK > s->least))
                        lc_finish(s, doc, score);
                }
            }
            low = stop;
        }
        low = high;
    }
done:
    free(terms);
    free(bounds);
    free(chunk);
}

/* All of the terms where these are common: documents are counted in windows, which takes no jumps. Phrases are looked for by
 * cursors of their own, that go only where a document is good enough. */

static void lc_all_common(lc_search *s, lc_cursor **terms, int n, float more) {
    float chunk[LC_NARROW], scores[LC_MOST_BLOCK];
    uint16_t hits[LC_NARROW];
    lc_cursor *probes = NULL;
    if (s->phrase_count) {
        probes = calloc((size_t)s->count, sizeof(lc_cursor));
        if (!probes) {
            s->error = LC_NO_MEMORY;
            return;
        }
        for (int i = 0; i < s->count; i++)
            probes[i].term = s->cursors[i].term, probes[i].open = -1, probes[i].spread_of = -1;
    }
    uint32_t low = 0;
    while (low < s->documents && !s->error) {
        low = lc_seek(s, terms[0], low);
        if (low == LC_END) break;
        uint32_t high = s->documents - low < LC_NARROW ? s->documents : low + LC_NARROW;
        if (s->least > -INFINITY) {
            float sum = more;
            for (int i = 0; i < n; i++) sum += lc_bound_until(terms[i], low, high);
            if (sum * LC_SLACK <= s->least) {
                low = high;
                continue;
            }
        }
        memset(chunk, 0, sizeof chunk);
        memset(hits, 0, sizeof hits);
        for (int i = 0; i < n && !s->error; i++) {
            lc_cursor *c = terms[i];
            uint32_t doc = lc_seek(s, c, low);
            while (doc < high) {
                if (!lc_freqs(s, c)) break;
                const int from = c->at, at = lc_until(c, high);
                lc_scores(s, c, from, at, scores);
                for (int k = from; k < at; k++) {
                    chunk[c->doc[k] - low] += scores[k - from];
                    hits[c->doc[k] - low]++;
                }
                if (at < c->count) {
                    c->at = at;
                    break;
                }
                c->at = c->count - 1;
                doc = lc_seek(s, c, c->doc[c->at] + 1);
            }
        }
        for (uint32_t doc = low; doc < high && !s->error; doc++) {
            float score = chunk[doc - low];
            /* Both at once: whether a document has all terms cannot be foretold, whether it is good enough can. */
            if (!((hits[doc - low] == n) & ((score + more) * LC_SLACK > s->least))) continue;
            if (s->keep && !s->keep[doc]) continue;
            int there = 1;
            for (int i = 0; there && i < s->phrase_count; i++) {
                const lc_phrase *p = s->phrases + i;
                for (int32_t k = 0; k < p->count; k++) lc_seek(s, probes + p->cursors[k], doc);
                there = !s->error && lc_phrase_there(s, p, probes);
            }
            if (there && !s->error) lc_finish(s, doc, score);
        }
        low = high;
    }
    for (int i = 0; probes && i < s->count; i++) lc_free_cursor(probes + i);
    free(probes);
}

/* The score of a document that all terms are at, and where it is known that of the first term. */

static inline float lc_all_score(lc_search *s, lc_cursor **terms, int n, const float *first) {
    float score = first ? *first : lc_score(s, terms[0]);
    for (int i = 1; i < n; i++) score += lc_score(s, terms[i]);
    return score;
}

/* All of the terms, and phrases of them. */

static void lc_all(lc_search *s) {
    lc_cursor **terms = malloc((size_t)s->count * sizeof(lc_cursor *));
    if (!terms) {
        s->error = LC_NO_MEMORY;
        return;
    }
    int n = 0;
    for (int i = 0; i < s->count; i++) {
        lc_cursor *c = s->cursors + i;
        if (c->group < 0) continue;
        int j = n++;
        for (; j > 0 && terms[j - 1]->term->length > c->term->length; j--) terms[j] = terms[j - 1];
        terms[j] = c;
    }
    const float more = lc_optional_most(s);
    if (s->limit < 0 && terms[0]->term->length >= s->documents / LC_COMMON) {
        lc_all_common(s, terms, n, more);
        free(terms);
        return;
    }
    lc_cursor *lead = terms[0];
    float scores[LC_MOST_BLOCK], rest = 0;
    int64_t scored = -1;
    uint32_t doc = lc_seek(s, lead, 0), stop = 0;
    while (doc != LC_END && !s->error) {
        if (s->least > -INFINITY) {
            if (doc >= stop) {
                float bound;
                stop = lc_block_end(s, lead, doc, &bound);
                rest = more;
                for (int i = 1; i < n; i++) {
                    float other;
                    uint32_t end = lc_block_end(s, terms[i], doc, &other);
                    rest += other;
                    if (end < stop) stop = end;
                }
                if ((bound + rest) * LC_SLACK <= s->least) {
                    doc = lc_seek(s, lead, stop);
                    continue;
                }
            }
            /* Documents in which the rarest term is not good enough are not looked up in the others. */
            if (scored != lead->open) {
                if (!lc_freqs(s, lead)) break;
                lc_scores(s, lead, 0, lead->count, scores);
                scored = lead->open;
            }
            int at = lead->at;
            while (at < lead->count && lead->doc[at] < stop && (scores[at] + rest) * LC_SLACK <= s->least) at++;
            if (at == lead->count) {
                lead->at = at - 1;
                doc = lc_seek(s, lead, lead->doc[at - 1] + 1);
                continue;
            }
            lead->at = at;
            doc = lead->doc[at];
            if (doc >= stop) continue;
        }
        uint32_t next = doc;
        for (int i = 1; i < n; i++) {
            next = lc_seek(s, terms[i], doc);
            if (next != doc) break;
        }
        if (next != doc) {
            doc = next == LC_END ? LC_END : lc_seek(s, lead, next);
            continue;
        }
        if (!s->keep || s->keep[doc]) {
            /* As long as any document is good enough, only those with the phrases are scored. */
            const int is_scored_first = s->least > -INFINITY;
            float score = is_scored_first ? lc_all_score(s, terms, n, scored == lead->open ? scores + lead->at : NULL) : 0;
            int there = !is_scored_first || (score + more) * LC_SLACK > s->least;
            for (int i = 0; there && i < s->phrase_count; i++) there = lc_phrase_there(s, s->phrases + i, s->cursors);
            if (there && !is_scored_first) score = lc_all_score(s, terms, n, NULL);
            if (there && !s->error) lc_finish(s, doc, score);
        }
        doc = lc_seek(s, lead, doc + 1);
    }
    free(terms);
}

/* At least one term of each group, and phrases of terms that are alone in theirs. */

static void lc_grouped(lc_search *s) {
    float *chunk = malloc(LC_CHUNK * sizeof(float));
    int32_t *reached = malloc(LC_CHUNK * sizeof(int32_t));
    if (!chunk || !reached) {
        s->error = LC_NO_MEMORY;
        goto done;
    }
    uint32_t low = 0;
    while (low < s->documents && !s->error) {
        uint32_t next = LC_END;
        for (int i = 0; i < s->count; i++) {
            if (s->cursors[i].group != 0) continue;
            uint32_t doc = lc_seek(s, s->cursors + i, low);
            if (doc < next) next = doc;
        }
        if (next == LC_END || s->error) break;
        low = next;
        uint32_t stop = s->documents - low < LC_CHUNK ? s->documents : low + LC_CHUNK;
        memset(chunk, 0, LC_CHUNK * sizeof(float));
        memset(reached, 0, LC_CHUNK * sizeof(int32_t));
        for (int g = 0; g < s->groups; g++) {
            for (int i = 0; i < s->count; i++) {
                lc_cursor *c = s->cursors + i;
                if (c->group != g) continue;
                uint32_t doc = lc_seek(s, c, low);
                while (doc < stop && !s->error) {
                    if (reached[doc - low] >= g) {
                        reached[doc - low] = g + 1;
                        chunk[doc - low] += lc_score(s, c);
                    }
                    if (doc + 1 >= stop) break;
                    doc = lc_seek(s, c, doc + 1);
                }
            }
        }
        for (uint32_t doc = low; doc < stop && !s->error; doc++)
            if (reached[doc - low] == s->groups && (!s->keep || s->keep[doc])) lc_finish(s, doc, chunk[doc - low]);
        low = stop;
    }
done:
    free(chunk);
    free(reached);
}

static void lc_run(lc_search *s) {
    int wide = 0, required = 0;
    for (int g = 0; g < s->groups; g++) {
        int members = 0;
        for (int i = 0; i < s->count; i++) members += s->cursors[i].group == g;
        if (!members) return;
        required += members;
        wide |= members > 1;
    }
    if (!required) return;
    s->least = -INFINITY;
    if (s->limit == 0) return;
    if (s->groups == 1 && !s->phrase_count) {
        if (s->count == 1) lc_one(s, s->cursors);
        else lc_any(s);
    }
    else if (!wide) lc_all(s);
    else lc_grouped(s);
}

/* Whether two texts are within so many edits of each other, in characters; ``row`` has room for the second and one more. */

static int lc_is_near(
    const uint32_t *text, int64_t size, const uint8_t *other, int64_t bytes, int64_t edits, int64_t *row
) {
    uint32_t characters = 0;
    for (int64_t i = 0; i < bytes; i++) characters += (other[i] & 0xC0) != 0x80;
    if (characters > size + edits || characters + edits < size) return 0;
    for (int64_t j = 0; j <= size; j++) row[j] = j;
    int64_t i = 0, line = 0;
    while (i < bytes) {
        uint32_t mark = other[i++];
        if (mark >= 0xF0) mark &= 7;
        else if (mark >= 0xE0) mark &= 15;
        else if (mark >= 0xC0) mark &= 31;
        while (i < bytes && (other[i] & 0xC0) == 0x80) mark = mark << 6 | (other[i++] & 63);
        int64_t corner = row[0], least = row[0] = ++line;
        for (int64_t j = 1; j <= size; j++) {
            int64_t cost = corner + (text[j - 1] != mark);
            if (row[j] + 1 < cost) cost = row[j] + 1;
            if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
            corner = row[j];
            row[j] = cost;
            if (cost < least) least = cost;
        }
        if (least > edits) return 0;
    }
    return row[size] <= edits;
}

/* The best of each block, without weights, by impacts; -1 for bytes that are not what they should be. */

static int lc_impact_bounds(
    const uint8_t *data, const int64_t *offsets, int64_t blocks, float base, float slope, float *bounds
) {
    for (int64_t b = 0; b < blocks; b++) {
        const uint8_t *entry = data + offsets[b];
        int64_t size = offsets[b + 1] - offsets[b], at;
        uint32_t last, pairs, freq = 0, norm = 0;
        if ((at = lc_read_impact(entry, size, &last, &pairs)) < 0) return LC_BAD;
        float best = 0;
        for (uint32_t i = 0; i < pairs; i++) {
            if ((at = lc_next_pair(entry, size, at, &freq, &norm)) < 0) return LC_BAD;
            float f = (float)freq, value = 2.2f * f / (f + base + slope * (float)lc_dequantize((uint8_t)norm));
            if (value > best) best = value;
        }
        bounds[b] = best;
    }
    return 0;
}

#endif
