/* A set of byte strings, numbered in the order in which they came.

     bytes    all strings, one after the other
     starts   where each begins; one more than there are strings
     slots    open addressing: how a string begins, its hash, and its number + 1, or 0

   A string of up to 7 bytes is found in its slot alone.

   The seed is drawn for each set, so that nobody can write texts whose words all meet in one slot. */

#ifndef LANCELET_TERMS_H
#define LANCELET_TERMS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t beginning;
    uint32_t hash;
    uint32_t number;
} TermSlot;

typedef struct {
    uint8_t *bytes;
    uint64_t *starts;
    TermSlot *slots;
    uint64_t room;      /* of bytes */
    uint64_t spaces;    /* of starts, one of them for the end */
    uint64_t mask;      /* slots - 1 */
    uint64_t seed;
    uint32_t count;
} TermTable;

#define TERMS_FULL UINT32_MAX

static inline uint64_t terms_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t terms_word(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, 8);
    return word;
}

static inline uint64_t terms_half(const uint8_t *bytes)
{
    uint32_t half;
    memcpy(&half, bytes, 4);
    return half;
}

/* Up to 7 bytes with their number in the highest byte; of longer strings the first 7. */
static inline uint64_t terms_beginning(const uint8_t *bytes, uint64_t length)
{
    if (length >= 8)
        return terms_word(bytes) | (uint64_t)0xFF << 56;
    if (length >= 4)
        return length << 56 | terms_half(bytes) | terms_half(bytes + length - 4) << 8 * (length - 4);
    if (length == 0)
        return 0;
    uint64_t middle = length >> 1, last = length - 1;
    return length << 56 | bytes[0] | (uint64_t)bytes[middle] << 8 * middle | (uint64_t)bytes[last] << 8 * last;
}

/* The same without jumps, where at least 8 bytes can be read. */
static inline uint64_t terms_beginning_within(const uint8_t *bytes, uint64_t length)
{
    const uint64_t told = length < 8 ? length : 7;
    return (terms_word(bytes) & (((uint64_t)1 << 8 * told) - 1)) | (length < 8 ? length : 0xFF) << 56;
}

static inline uint32_t terms_hash(uint64_t seed, uint64_t beginning, const uint8_t *bytes, uint64_t length)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t hash = seed ^ beginning;
    if (length >= 8) {
        hash = seed ^ length * odd;
        for (uint64_t at = 0; at + 8 < length; at += 8)
            hash = terms_mix(hash ^ terms_word(bytes + at), odd);
        hash ^= terms_word(bytes + length - 8);
    }
    hash = terms_mix(hash, 0xD6E8FEB86659FD93u);
    return (uint32_t)(hash ^ hash >> 32);
}

/* Whether strings of one length, which is at least 8, are the same. */
static inline int terms_same(const uint8_t *one, const uint8_t *other, uint64_t length)
{
    for (uint64_t at = 0; at + 8 < length; at += 8)
        if (terms_word(one + at) != terms_word(other + at))
            return 0;
    return terms_word(one + length - 8) == terms_word(other + length - 8);
}

static inline int terms_open(TermTable *table, uint64_t seed)
{
    table->room = 4096;
    table->spaces = 512;
    table->mask = 1023;
    table->seed = seed;
    table->count = 0;
    table->bytes = (uint8_t *)malloc(table->room);
    table->starts = (uint64_t *)malloc(table->spaces * sizeof(uint64_t));
    table->slots = (TermSlot *)calloc(table->mask + 1, sizeof(TermSlot));
    if (!table->bytes || !table->starts || !table->slots)
        return 0;
    table->starts[0] = 0;
    return 1;
}

static inline void terms_close(TermTable *table)
{
    free(table->bytes);
    free(table->starts);
    free(table->slots);
    table->bytes = NULL;
    table->starts = NULL;
    table->slots = NULL;
}

/* The slot of a string: where it is, or where it would come. */
static inline uint64_t terms_slot(
    const TermTable *table, uint32_t hash, uint64_t beginning, const uint8_t *bytes, uint64_t length)
{
    uint64_t at = hash & table->mask;
    for (; table->slots[at].number; at = (at + 1) & table->mask) {
        const TermSlot *slot = &table->slots[at];
        if (slot->hash != hash || slot->beginning != beginning)
            continue;
        if (length < 8)
            break;
        uint64_t start = table->starts[slot->number - 1];
        if (table->starts[slot->number] - start == length && terms_same(table->bytes + start, bytes, length))
            break;
    }
    return at;
}

/* The number of a string, or TERMS_FULL if it is not there. */
static inline uint32_t terms_find(const TermTable *table, const uint8_t *bytes, uint64_t length)
{
    uint64_t beginning = terms_beginning(bytes, length);
    uint32_t hash = terms_hash(table->seed, beginning, bytes, length);
    return table->slots[terms_slot(table, hash, beginning, bytes, length)].number - 1;
}

static inline int terms_spread(TermTable *table)
{
    uint64_t mask = table->mask * 2 + 1, at;
    TermSlot *slots = (TermSlot *)calloc(mask + 1, sizeof(TermSlot));
    if (!slots)
        return 0;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->slots[i].number) {
            for (at = table->slots[i].hash & mask; slots[at].number; at = (at + 1) & mask)
                ;
            slots[at] = table->slots[i];
        }
    free(table->slots);
    table->slots = slots;
    table->mask = mask;
    return 1;
}

/* The number of a string whose hash is known, a new one if it was not there; TERMS_FULL when memory or numbers have run out. */
static inline uint32_t terms_put(
    TermTable *table, uint32_t hash, uint64_t beginning, const uint8_t *bytes, uint64_t length)
{
    uint64_t at = terms_slot(table, hash, beginning, bytes, length), used;
    if (table->slots[at].number)
        return table->slots[at].number - 1;
    if (table->count >= TERMS_FULL - 1)
        return TERMS_FULL;
    used = table->starts[table->count];
    if (length > table->room - used) {
        uint64_t room = table->room + (length > table->room ? length : table->room);
        uint8_t *larger = (uint8_t *)realloc(table->bytes, room);
        if (!larger)
            return TERMS_FULL;
        table->bytes = larger;
        table->room = room;
    }
    if ((uint64_t)table->count + 2 > table->spaces) {
        uint64_t *larger = (uint64_t *)realloc(table->starts, table->spaces * 2 * sizeof(uint64_t));
        if (!larger)
            return TERMS_FULL;
        table->starts = larger;
        table->spaces *= 2;
    }
    /* At most half full, so that searches are short. */
    if ((uint64_t)table->count * 2 >= table->mask) {
        if (!terms_spread(table))
            return TERMS_FULL;
        at = terms_slot(table, hash, beginning, bytes, length);
    }
    memcpy(table->bytes + used, bytes, length);
    table->starts[table->count + 1] = used + length;
    table->slots[at] = (TermSlot){beginning, hash, table->count + 1};
    return table->count++;
}

static inline uint32_t terms_intern(TermTable *table, const uint8_t *bytes, uint64_t length)
{
    uint64_t beginning = terms_beginning(bytes, length);
    return terms_put(table, terms_hash(table->seed, beginning, bytes, length), beginning, bytes, length);
}

#endif
