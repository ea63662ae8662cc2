/* Where words begin and end in texts of UTF-8: Unicode's word boundaries (UAX 29), as ICU4X has them.

   Runs of characters of scripts without spaces between words (COMPLEX) are cut by a dictionary, elsewhere; they stand apart from all
   that is around them, marks included. */

#ifndef LANCELET_SEGMENTS_H
#define LANCELET_SEGMENTS_H

#include <stdint.h>

/* As in characters.py. */
enum {
    SEG_OTHER, SEG_CR, SEG_LF, SEG_NEWLINE, SEG_EXTEND, SEG_ZWJ, SEG_FORMAT, SEG_FLAG, SEG_KATAKANA, SEG_HEBREW, SEG_LETTER,
    SEG_SINGLE_QUOTE, SEG_DOUBLE_QUOTE, SEG_MID_BOTH, SEG_MID_LETTER, SEG_MID_NUMBER, SEG_NUMBER, SEG_JOINER, SEG_SPACE,
    SEG_COMPLEX, SEG_PICTURE = 32
};

static inline int seg_length(const uint8_t *data, int64_t at, int64_t stop)
{
    uint8_t first = data[at];
    int more = first < 0xC2 || first >= 0xF5 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    if (at + more >= stop)
        return 1;
    for (int i = 1; i <= more; i++)
        if ((data[at + i] & 0xC0) != 0x80)
            return 1;
    return more + 1;
}

/* What a character is, and how many bytes it has. */
static inline int seg_kind(const uint8_t *kinds, const uint8_t *data, int64_t at, int64_t stop, int *length)
{
    uint32_t code = data[at];
    int count = seg_length(data, at, stop);
    *length = count;
    if (count == 1)
        return code < 0x80 ? kinds[code] : SEG_OTHER;
    code &= 0x7F >> count;
    for (int i = 1; i < count; i++)
        code = code << 6 | (data[at + i] & 0x3F);
    return code < 0x110000 ? kinds[code] : SEG_OTHER;
}

static inline int seg_is_ignored(int kind)
{
    return kind == SEG_EXTEND || kind == SEG_ZWJ || kind == SEG_FORMAT;
}

static inline int seg_is_letter(int kind)
{
    return kind == SEG_LETTER || kind == SEG_HEBREW;
}

/* The next character that counts, after one that begins at `at`. */
static inline int seg_after(const uint8_t *kinds, const uint8_t *data, int64_t at, int64_t stop)
{
    int length, kind;
    seg_kind(kinds, data, at, stop, &length);
    for (at += length; at < stop; at += length) {
        kind = seg_kind(kinds, data, at, stop, &length) & ~SEG_PICTURE;
        if (!seg_is_ignored(kind))
            return kind;
    }
    return SEG_OTHER;
}

/* Where the segment ends that begins at `at`, before `stop`; *complex tells whether it is to be cut further. */
static inline int64_t seg_end(const uint8_t *kinds, const uint8_t *data, int64_t at, int64_t stop, int *complex)
{
    int length, whole = seg_kind(kinds, data, at, stop, &length), kind = whole & ~SEG_PICTURE;
    int last = kind, before = seg_is_ignored(kind) ? SEG_OTHER : kind, before_that = SEG_OTHER, flags = kind == SEG_FLAG;
    at += length;
    *complex = kind == SEG_COMPLEX;
    if (kind == SEG_CR && at < stop && data[at] == '\n')
        return at + 1;
    if (kind == SEG_CR || kind == SEG_LF || kind == SEG_NEWLINE)
        return at;
    for (; at < stop; at += length) {
        whole = seg_kind(kinds, data, at, stop, &length);
        kind = whole & ~SEG_PICTURE;
        if (*complex || kind == SEG_COMPLEX) {
            if (*complex && kind == SEG_COMPLEX)
                continue;
            return at;
        }
        if (kind == SEG_CR || kind == SEG_LF || kind == SEG_NEWLINE)
            return at;
        if (seg_is_ignored(kind)) {
            last = kind;
            continue;
        }
        if (!((last == SEG_ZWJ && whole & SEG_PICTURE) || (last == SEG_SPACE && kind == SEG_SPACE))) {
            int numbers = before == SEG_NUMBER, letters = seg_is_letter(before), joined;
            int word = letters || numbers || before == SEG_KATAKANA || before == SEG_JOINER;
            int mid_letter = kind == SEG_MID_LETTER || kind == SEG_MID_BOTH || kind == SEG_SINGLE_QUOTE;
            int mid_number = kind == SEG_MID_NUMBER || kind == SEG_MID_BOTH || kind == SEG_SINGLE_QUOTE;
            int was_mid_letter = before == SEG_MID_LETTER || before == SEG_MID_BOTH || before == SEG_SINGLE_QUOTE;
            int was_mid_number = before == SEG_MID_NUMBER || before == SEG_MID_BOTH || before == SEG_SINGLE_QUOTE;
            if (seg_is_letter(kind))
                joined = letters || numbers || before == SEG_JOINER
                    || (seg_is_letter(before_that) && was_mid_letter)
                    || (kind == SEG_HEBREW && before == SEG_DOUBLE_QUOTE && before_that == SEG_HEBREW);
            else if (kind == SEG_NUMBER)
                joined = letters || numbers || before == SEG_JOINER || (before_that == SEG_NUMBER && was_mid_number);
            else if (kind == SEG_KATAKANA)
                joined = before == SEG_KATAKANA || before == SEG_JOINER;
            else if (kind == SEG_JOINER)
                joined = word && !(before == SEG_KATAKANA && last == SEG_ZWJ);
            else if (kind == SEG_FLAG)
                joined = before == SEG_FLAG && flags % 2;
            else if (kind == SEG_SINGLE_QUOTE && before == SEG_HEBREW)
                joined = 1;
            else if (kind == SEG_DOUBLE_QUOTE && before == SEG_HEBREW)
                joined = seg_after(kinds, data, at, stop) == SEG_HEBREW;
            else
                joined = (letters && mid_letter && seg_is_letter(seg_after(kinds, data, at, stop)))
                    || (numbers && mid_number && seg_after(kinds, data, at, stop) == SEG_NUMBER);
            if (!joined)
                return at;
        }
        flags += kind == SEG_FLAG;
        before_that = before;
        before = last = kind;
    }
    return at;
}

#endif
