/* Words in runs of scripts that are written without spaces, found in dictionaries, as ICU4X finds them.

   A run is cut where its language changes. From where it stands, a walk takes the longest word that ends between two graphemes and
   begins no longer one; where no word begins, it goes past the first character that no word has there. What is left at the
   end of a language's part of the run is cut anew, as if it stood alone, unless another language follows.

   That graphemes are counted on through the whole part, also when a walk goes back to the end of a word, is ICU4X's way too. */

#ifndef LANCELET_COMPLEX_SCRIPTS_H
#define LANCELET_COMPLEX_SCRIPTS_H

#include "segments.h"
#include "terms.h"

enum { LANG_UNKNOWN, LANG_THAI, LANG_LAO, LANG_KHMER, LANG_BURMESE, LANG_CHINESE_JAPANESE, LANGUAGES };
/* Of a beginning of words: it is a word itself; a longer one begins with it. */
enum { BEGINNING_WORD = 1, BEGINNING_GOES_ON = 2 };
/* Of a character: it belongs to the grapheme before it; and its part in conjuncts of consonants. */
enum { MARK_EXTENDS = 1, MARK_CONSONANT = 2, MARK_LINKER = 4, MARK_CONJOINS = 8 };

typedef struct {
    const TermTable *beginnings[LANGUAGES];     /* NULL where words are not known */
    const uint8_t *flags[LANGUAGES];            /* of each beginning */
    const uint8_t *marks;                       /* of each character */
} SegWords;

static inline uint32_t seg_code(const uint8_t *data, int64_t at, int64_t stop, int *length)
{
    uint32_t code = data[at];
    *length = seg_length(data, at, stop);
    if (*length == 1)
        return code < 0x80 ? code : 0;
    code &= 0x7F >> *length;
    for (int i = 1; i < *length; i++)
        code = code << 6 | (data[at + i] & 0x3F);
    return code < 0x110000 ? code : 0;
}

/* Of a character that is COMPLEX. */
static inline int seg_language(uint32_t code)
{
    if (code < 0xE80)
        return LANG_THAI;
    if (code < 0xF00)
        return LANG_LAO;
    if (code < 0x10A0 || (code >= 0xA9E0 && code < 0xAA00) || (code >= 0xAA60 && code < 0xAA80))
        return LANG_BURMESE;
    if (code < 0x1800)
        return LANG_KHMER;
    if (code < 0x2E80 || (code >= 0x3000 && code < 0x3040) || (code >= 0xAA80 && code < 0xAB00)
        || (code >= 0x11700 && code < 0x11800) || (code >= 0x16FF2 && code < 0x17000) || code >= 0x31350)
        return LANG_UNKNOWN;
    return LANG_CHINESE_JAPANESE;
}

/* Where the grapheme ends that begins at `at`. */
static inline int64_t seg_grapheme_end(const SegWords *words, const uint8_t *data, int64_t at, int64_t stop)
{
    int length, mark = words->marks[seg_code(data, at, stop, &length)];
    int consonant = mark & MARK_CONSONANT, linked = 0;
    for (at += length; at < stop; at += length) {
        mark = words->marks[seg_code(data, at, stop, &length)];
        if (!(mark & MARK_EXTENDS) && !(mark & MARK_CONSONANT && linked))
            break;
        if (mark & MARK_CONSONANT) {
            consonant = 1;
            linked = 0;
        } else if (mark & MARK_CONJOINS)
            linked |= consonant && mark & MARK_LINKER;
        else
            consonant = linked = 0;
    }
    return at;
}

/* The ends of words between `start` and `stop`, all of one language; how many there are. There is room for an end for each byte. */
static inline int64_t seg_cut_part(
    const SegWords *words, int language, const uint8_t *data, int64_t start, int64_t stop, int64_t *ends)
{
    const TermTable *beginnings = words->beginnings[language];
    int64_t count = 0, from = start, grapheme = start;
    int graphemes_left = 1;
    for (;;) {
        int64_t at = from, word = 0, seen = start, end = -1;
        int prefix = 0, length;
        for (; at < stop;) {
            seg_code(data, at, stop, &length);
            at += length;
            uint32_t number = terms_find(beginnings, data + from, at - from);
            if (number == TERMS_FULL) {
                end = word ? word : at;
                at = end;
                break;
            }
            uint8_t flags = words->flags[language][number];
            if (flags == BEGINNING_WORD) {
                end = at;
                break;
            }
            if (!(flags & BEGINNING_WORD)) {
                prefix = 1;
                continue;
            }
            while (seen < at) {
                if (!graphemes_left) {
                    seen = stop;
                    break;
                }
                seen = grapheme;
                if (grapheme == stop)
                    graphemes_left = 0;
                else
                    grapheme = seg_grapheme_end(words, data, grapheme, stop);
            }
            if (seen == at)
                word = at;
        }
        if (end < 0)
            end = word ? word : prefix ? stop : -1;
        if (end < 0)
            return count;
        ends[count++] = end;
        from = at;
    }
}

/* The ends of words in a run; how many there are, or -1 when a language is not known, which *lacking tells. */
static inline int64_t seg_cut_run(
    const SegWords *words, const uint8_t *data, int64_t start, int64_t stop, int64_t *ends, int *lacking)
{
    int64_t count = 0;
    while (start < stop) {
        int64_t at = start, first = count;
        while (at < stop) {
            int length, language = seg_language(seg_code(data, at, stop, &length));
            int64_t part = at;
            while ((at += length) < stop && seg_language(seg_code(data, at, stop, &length)) == language)
                ;
            if (language == LANG_UNKNOWN)
                ends[count++] = at;
            else if (!words->beginnings[language]) {
                *lacking = language;
                return -1;
            } else
                count += seg_cut_part(words, language, data, part, at, ends + count);
        }
        if (count == first || ends[count - 1] <= start)
            ends[count++] = stop;
        start = ends[count - 1];
    }
    return count;
}

#endif
