/* A set of byte strings, numbered in the order in which they came.

     bytes    all strings, one after the other
     starts   where each begins; one more than there are strings
     slots    open addressing: hash << 32 | number + 1, or 0

   The seed is drawn for each set, so that nobody can write texts whose words all meet in one slot. */

#ifndef LANCELET_TERMS_H
#define LANCELET_TERMS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint8_t *bytes;
    uint64_t *starts;
    uint64_t *slots;
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

static inline uint32_t terms_hash(uint64_t seed, const uint8_t *bytes, uint64_t length)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t hash = seed ^ length * odd, word = 0;
    while (length > 8) {
        hash = terms_mix(hash ^ terms_word(bytes), odd);
        bytes += 8;
        length -= 8;
    }
    if (length == 8)
        word = terms_word(bytes);
    else
        for (uint64_t i = 0; i < length; i++)
            word |= (uint64_t)bytes[i] << (8 * i);
    hash = terms_mix(hash ^ word, 0xD6E8FEB86659FD93u);
    return (uint32_t)(hash ^ hash >> 32);
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
    table->slots = (uint64_t *)calloc(table->mask + 1, sizeof(uint64_t));
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
    table->starts = table->slots = NULL;
}

/* The slot of a string: where it is, or where it would come. */
static inline uint64_t terms_slot(const TermTable *table, uint32_t hash, const uint8_t *bytes, uint64_t length)
{
    uint64_t at = hash & table->mask, slot;
    while ((slot = table->slots[at]) != 0) {
        if ((uint32_t)(slot >> 32) == hash) {
            uint64_t number = (uint32_t)slot - 1, start = table->starts[number];
            if (table->starts[number + 1] - start == length && !memcmp(table->bytes + start, bytes, length))
                break;
        }
        at = (at + 1) & table->mask;
    }
    return at;
}

static inline int terms_spread(TermTable *table)
{
    uint64_t mask = table->mask * 2 + 1, at;
    uint64_t *slots = (uint64_t *)calloc(mask + 1, sizeof(uint64_t));
    if (!slots)
        return 0;
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->slots[i]) {
            for (at = table->slots[i] >> 32 & mask; slots[at]; at = (at + 1) & mask)
                ;
            slots[at] = table->slots[i];
        }
    free(table->slots);
    table->slots = slots;
    table->mask = mask;
    return 1;
}

/* The number of a string, a new one if it was not there; TERMS_FULL when memory or numbers have run out. */
static inline uint32_t terms_intern(TermTable *table, const uint8_t *bytes, uint64_t length)
{
    uint32_t hash = terms_hash(table->seed, bytes, length);
    uint64_t at = terms_slot(table, hash, bytes, length), used;
    if (table->slots[at])
        return (uint32_t)table->slots[at] - 1;
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
        at = terms_slot(table, hash, bytes, length);
    }
    memcpy(table->bytes + used, bytes, length);
    table->starts[table->count + 1] = used + length;
    table->slots[at] = (uint64_t)hash << 32 | (table->count + 1);
    return table->count++;
}

#endif
