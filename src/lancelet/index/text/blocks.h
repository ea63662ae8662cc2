/* Blocks of postings (spec indices.md 10.4 to 10.6), read and written. Plain C, shared by the kernels that keep
 * postings and by those that search them.
 *
 *   full, 128   f32 best score | u32 first | u8 nb | 16 nb bytes of steps | u8 fb | 16 fb bytes of frequencies
 *   full, 256   u32 first | u8 nb | 32 nb bytes of steps | u8 w | u8 exceptions | 32 w bytes | { u8 place, varint high bits }
 *   tail        [f32 best score where blocks are of 128] then
 *                 fixed32_v1       n u32 documents, n u32 frequencies
 *                 varint_delta_v1  n varint steps (the first is a document), n varint frequencies
 *
 * Bits are packed in lanes of 32 values: value j * L + l is the j-th field of lane l, whose words are at k * L + l.
 * Functions that read take sizes, and return -1 for bytes that are not what they should be; they never look beyond.
 */
#ifndef LANCELET_TEXT_BLOCKS_H
#define LANCELET_TEXT_BLOCKS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LC_TAIL_FIXED32 0
#define LC_TAIL_VARINT 1
#define LC_MOST_BLOCK 256

/* Numbers of variable length. */

static inline int64_t lc_read_varint(const uint8_t *data, int64_t size, int64_t at, uint32_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (at >= size) return -1;
        uint8_t byte = data[at++];
        found |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            if (found > UINT32_MAX) return -1;
            *value = (uint32_t)found;
            return at;
        }
    }
    return -1;
}

static inline int64_t lc_write_varint(uint8_t *out, int64_t at, uint32_t value) {
    while (value >= 128) {
        out[at++] = (uint8_t)(value | 128);
        value >>= 7;
    }
    out[at++] = (uint8_t)value;
    return at;
}

static inline uint32_t lc_read_u32(const uint8_t *data) {
    uint32_t value;
    memcpy(&value, data, 4);
    return value;
}

/* Packed bits. */

#define LC_UNPACK(NAME, PACK, LANES)                                                                         \
    static inline void NAME##_of(const uint8_t *data, const int width, uint32_t *out) {                  \
        const uint32_t mask = width == 32 ? UINT32_MAX : (1u << width) - 1;                              \
        for (int j = 0; j < 32; j++) {                                                                   \
            const int bit = j * width, shift = bit & 31;                                                 \
            const uint8_t *word = data + (int64_t)(bit >> 5) * LANES * 4;                                \
            uint32_t low[LANES];                                                                         \
            memcpy(low, word, sizeof low);                                                               \
            for (int l = 0; l < LANES; l++) low[l] >>= shift;                                            \
            if (shift + width > 32) {                                                                    \
                uint32_t high[LANES];                                                                    \
                memcpy(high, word + LANES * 4, sizeof high);                                             \
                for (int l = 0; l < LANES; l++) low[l] |= high[l] << (32 - shift);                       \
            }                                                                                            \
            for (int l = 0; l < LANES; l++) out[j * LANES + l] = low[l] & mask;                          \
        }                                                                                                \
    }                                                                                                    \
    static inline void NAME(const uint8_t *data, int width, uint32_t *out) {                             \
        switch (width) {                                                                                 \
            case 0: memset(out, 0, 32 * LANES * 4); break;                                               \
            case 1: NAME##_of(data, 1, out); break;                                                      \
            case 2: NAME##_of(data, 2, out); break;                                                      \
            case 3: NAME##_of(data, 3, out); break;                                                      \
            case 4: NAME##_of(data, 4, out); break;                                                      \
            case 5: NAME##_of(data, 5, out); break;                                                      \
            case 6: NAME##_of(data, 6, out); break;                                                      \
            case 7: NAME##_of(data, 7, out); break;                                                      \
            case 8: NAME##_of(data, 8, out); break;                                                      \
            default: NAME##_of(data, width, out);                                                        \
        }                                                                                                \
    }                                                                                                    \
    static inline void PACK(const uint32_t *values, int width, uint8_t *out) {                    \
        uint32_t words[32 * LANES];                                                                      \
        memset(words, 0, (size_t)width * LANES * 4);                                                     \
        for (int j = 0; j < 32; j++) {                                                                   \
            const int bit = j * width, shift = bit & 31, at = (bit >> 5) * LANES;                        \
            for (int l = 0; l < LANES; l++) words[at + l] |= values[j * LANES + l] << shift;             \
            if (shift + width > 32)                                                                      \
                for (int l = 0; l < LANES; l++) words[at + LANES + l] |= values[j * LANES + l] >> (32 - shift); \
        }                                                                                                \
        memcpy(out, words, (size_t)width * LANES * 4);                                                   \
    }

LC_UNPACK(lc_unpack4, lc_pack4, 4)
LC_UNPACK(lc_unpack8, lc_pack8, 8)

/* How many bits a number takes. */

static inline int lc_width(uint32_t bits) { return bits ? 32 - __builtin_clz(bits) : 0; }

/* Documents: how many bytes they took, or -1. ``count`` is that of the block, ``block`` the size of full ones. */

static inline int64_t lc_block_docs(
    const uint8_t *data, int64_t size, int block, int count, int tail, uint32_t *docs
) {
    int64_t at = block == 128 ? 4 : 0;
    if (count < 1 || count > block || size < at) return -1;
    if (count < block) {
        if (tail == LC_TAIL_FIXED32) {
            if (size < at + (int64_t)count * 8) return -1;
            memcpy(docs, data + at, (size_t)count * 4);
            for (int i = 1; i < count; i++)
                if (docs[i] <= docs[i - 1]) return -1;
            return at + (int64_t)count * 4;
        }
        uint64_t doc = 0;
        for (int i = 0; i < count; i++) {
            uint32_t step;
            at = lc_read_varint(data, size, at, &step);
            if (at < 0 || (i && !step)) return -1;
            doc += step;
            if (doc > UINT32_MAX) return -1;
            docs[i] = (uint32_t)doc;
        }
        return at;
    }
    if (size < at + 5) return -1;
    uint32_t first = lc_read_u32(data + at);
    int width = data[at + 4];
    at += 5;
    if (width > 32 || size < at + (int64_t)width * (block / 8)) return -1;
    if (block == 128) lc_unpack4(data + at, width, docs);
    else lc_unpack8(data + at, width, docs);
    if (docs[0]) return -1;
    uint64_t doc = first;
    uint32_t stands = 0;
    docs[0] = first;
    for (int i = 1; i < block; i++) {
        stands |= docs[i] == 0;
        doc += docs[i];
        docs[i] = (uint32_t)doc;
    }
    if (stands || doc > UINT32_MAX) return -1;
    return at + (int64_t)width * (block / 8);
}

/* Frequencies, which begin at ``at``; 0, or -1. */

static inline int lc_block_freqs(
    const uint8_t *data, int64_t size, int64_t at, int block, int count, int tail, uint32_t *freqs
) {
    if (count < block) {
        if (tail == LC_TAIL_FIXED32) {
            if (size < at + (int64_t)count * 4) return -1;
            memcpy(freqs, data + at, (size_t)count * 4);
            return 0;
        }
        for (int i = 0; i < count; i++) {
            at = lc_read_varint(data, size, at, freqs + i);
            if (at < 0) return -1;
        }
        return 0;
    }
    if (size < at + 1) return -1;
    int width = data[at++];
    if (width > 32) return -1;
    if (block == 128) {
        if (size < at + (int64_t)width * 16) return -1;
        lc_unpack4(data + at, width, freqs);
        return 0;
    }
    if (size < at + 1 + (int64_t)width * 32) return -1;
    int exceptions = data[at++];
    lc_unpack8(data + at, width, freqs);
    at += (int64_t)width * 32;
    for (int i = 0; i < exceptions; i++) {
        uint32_t high;
        if (at >= size) return -1;
        int place = data[at++];
        at = lc_read_varint(data, size, at, &high);
        if (at < 0 || width == 32 || ((uint64_t)high << width) > UINT32_MAX) return -1;
        freqs[place] |= high << width;
    }
    return 0;
}

/* The first document of a block, without the others; -1 where there is none. */

static inline int64_t lc_block_first(const uint8_t *data, int64_t size, int block, int count, int tail) {
    int64_t at = block == 128 ? 4 : 0;
    uint32_t first;
    if (count < block && tail == LC_TAIL_VARINT)
        return lc_read_varint(data, size, at, &first) < 0 ? -1 : (int64_t)first;
    return size < at + 4 ? -1 : (int64_t)lc_read_u32(data + at);
}

/* The best score that the writer knew for a block of 128. */

static inline float lc_block_score(const uint8_t *data, int64_t size) {
    float score = 0;
    if (size >= 4) memcpy(&score, data, 4);
    return score;
}

/* Positions of a block as one stream: for each document the first one, then steps. Groups of 128 are packed, the rest
 * are varints. ``total`` is the sum of the frequencies; -1 for bytes that are not what they should be. */

static inline int lc_block_positions(
    const uint8_t *data, int64_t size, const uint32_t *freqs, int count, uint32_t *out, int64_t total
) {
    int64_t at = 0, done = 0;
    while (total - done >= 128) {
        if (at >= size) return -1;
        int width = data[at++];
        if (width > 32 || size < at + (int64_t)width * 16) return -1;
        lc_unpack4(data + at, width, out + done);
        at += (int64_t)width * 16;
        done += 128;
    }
    for (; done < total; done++) {
        at = lc_read_varint(data, size, at, out + done);
        if (at < 0) return -1;
    }
    int64_t place = 0;
    for (int d = 0; d < count; d++) {
        uint64_t position = 0;
        for (uint32_t i = 0; i < freqs[d]; i++) {
            position += out[place];
            if (position > UINT32_MAX) return -1;
            out[place++] = (uint32_t)position;
        }
    }
    return 0;
}

/* Steps of the positions of a block; at most 5 bytes each, and 1 more for 128. */

static inline int64_t lc_write_steps(uint8_t *out, int64_t at, const uint32_t *steps, int64_t count) {
    int64_t done = 0;
    for (; count - done >= 128; done += 128) {
        uint32_t bits = 0;
        for (int i = 0; i < 128; i++) bits |= steps[done + i];
        int width = lc_width(bits);
        out[at++] = (uint8_t)width;
        lc_pack4(steps + done, width, out + at);
        at += (int64_t)width * 16;
    }
    for (; done < count; done++) at = lc_write_varint(out, at, steps[done]);
    return at;
}

/* Lengths of documents in one byte, as impacts have them and as scores of blocks of 256 see them. */

static inline uint8_t lc_quantize(uint32_t length) {
    if (length < 8) return (uint8_t)length;
    int shift = lc_width(length) - 4;
    return (uint8_t)(((length >> shift) & 7) | ((shift + 1) << 3));
}

static inline uint32_t lc_dequantize(uint8_t code) {
    if (code < 8) return code;
    return (uint32_t)((uint64_t)((code & 7) | 8) << ((code >> 3) - 1));
}

/* An impact: the last document, and how many pairs of a frequency and a quantized length; ``at`` moves behind them. */

static inline int64_t lc_read_impact(const uint8_t *data, int64_t size, uint32_t *last, uint32_t *pairs) {
    int64_t at = lc_read_varint(data, size, 0, last);
    return at < 0 ? -1 : lc_read_varint(data, size, at, pairs);
}

static inline int64_t lc_next_pair(const uint8_t *data, int64_t size, int64_t at, uint32_t *freq, uint32_t *norm) {
    uint32_t step;
    at = lc_read_varint(data, size, at, &step);
    if (at < 0 || *freq + (uint64_t)(step >> 1) + 1 > UINT32_MAX) return -1;
    *freq += (step >> 1) + 1;
    if (step & 1) {
        if (at >= size) return -1;
        *norm += data[at++];
    } else {
        *norm += 1;
    }
    return *norm > 255 ? -1 : at;
}

/* BM25 (spec indices.md 10.8), in single precision as everywhere. */

static inline float lc_idf(uint64_t documents, uint64_t length) {
    float all = (float)documents, some = (float)length;
    return logf((all - some + 0.5f) / (some + 0.5f) + 1.0f);
}

static inline float lc_norm(uint32_t length, float average) {
    return 1.2f * (1.0f - 0.75f + 0.75f * (float)length / average);
}

/* The best of some documents, at most LC_MOST_BLOCK, by how often the term is in each, without weight; several at a time. In
 * this order of operations pylance's own scores come out, mostly to the last bit. */

static inline float lc_best_share(const uint32_t *docs, const uint32_t *freqs, int count, const float *norms) {
    float shares[LC_MOST_BLOCK], best = 0;
    for (int i = 0; i < count; i++) shares[i] = norms[docs[i]];
    for (int i = 0; i < count; i++) shares[i] = (float)freqs[i] / ((float)freqs[i] + shares[i]);
    for (int i = 0; i < count; i++) best = shares[i] > best ? shares[i] : best;
    return best;
}

/* Writing. Blocks take at most LC_MOST_BYTES, impacts LC_MOST_IMPACT. */

#define LC_MOST_BYTES 4096
#define LC_MOST_IMPACT 2048

static inline int lc_varint_size(uint32_t value) {
    int size = 1;
    while (value >= 128) {
        value >>= 7;
        size++;
    }
    return size;
}

static inline int64_t lc_write_patched(uint8_t *out, int64_t at, const uint32_t *freqs) {
    int counts[33] = {0}, best = 32, most = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 256; i++) counts[lc_width(freqs[i])]++;
    for (int w = 32; w >= 0; w--) {
        if (counts[w] && w > most) most = w;
        int exceptions = 0;
        int64_t bytes = (int64_t)w * 32;
        for (int b = w + 1; b <= 32; b++) {
            exceptions += counts[b];
            bytes += (int64_t)counts[b] * (1 + (b - w + 6) / 7);
        }
        if (exceptions > 31) break;
        if (bytes < least) {
            least = bytes;
            best = w;
        }
    }
    uint32_t low[256];
    const uint32_t mask = best == 32 ? UINT32_MAX : (1u << best) - 1;
    int64_t count_at = at + 1;
    int exceptions = 0;
    out[at] = (uint8_t)best;
    at += 2;
    for (int i = 0; i < 256; i++) low[i] = freqs[i] & mask;
    lc_pack8(low, best, out + at);
    at += (int64_t)best * 32;
    if (best < 32)
        for (int i = 0; i < 256; i++)
            if (freqs[i] >> best) {
                out[at++] = (uint8_t)i;
                at = lc_write_varint(out, at, freqs[i] >> best);
                exceptions++;
            }
    out[count_at] = (uint8_t)exceptions;
    return at;
}

static inline int64_t lc_write_block(
    uint8_t *out, const uint32_t *docs, const uint32_t *freqs, int count, int block, int tail, float score
) {
    int64_t at = 0;
    if (block == 128) {
        memcpy(out, &score, 4);
        at = 4;
    }
    if (count < block) {
        if (tail == LC_TAIL_FIXED32) {
            memcpy(out + at, docs, (size_t)count * 4);
            memcpy(out + at + (int64_t)count * 4, freqs, (size_t)count * 4);
            return at + (int64_t)count * 8;
        }
        uint32_t previous = 0;
        for (int i = 0; i < count; i++) {
            at = lc_write_varint(out, at, docs[i] - previous);
            previous = docs[i];
        }
        for (int i = 0; i < count; i++) at = lc_write_varint(out, at, freqs[i]);
        return at;
    }
    uint32_t steps[LC_MOST_BLOCK], bits = 0;
    steps[0] = 0;
    for (int i = 1; i < block; i++) bits |= steps[i] = docs[i] - docs[i - 1];
    int width = lc_width(bits);
    memcpy(out + at, docs, 4);
    out[at + 4] = (uint8_t)width;
    at += 5;
    if (block == 128) lc_pack4(steps, width, out + at);
    else lc_pack8(steps, width, out + at);
    at += (int64_t)width * (block / 8);
    if (block == 256) return lc_write_patched(out, at, freqs);
    bits = 0;
    for (int i = 0; i < block; i++) bits |= freqs[i];
    width = lc_width(bits);
    out[at++] = (uint8_t)width;
    lc_pack4(freqs, width, out + at);
    return at + (int64_t)width * 16;
}

/* The greatest frequency for each quantized length, of a block or of several. */

typedef struct {
    uint32_t best[256];
    int low, high;
} lc_frontier;

static inline void lc_clear_frontier(lc_frontier *all) {
    if (all->low <= all->high) memset(all->best + all->low, 0, (size_t)(all->high - all->low + 1) * 4);
    all->low = 256;
    all->high = -1;
}

static inline void lc_note(lc_frontier *all, int norm, uint32_t freq) {
    if (freq > all->best[norm]) all->best[norm] = freq;
    if (norm < all->low) all->low = norm;
    if (norm > all->high) all->high = norm;
}

static inline int64_t lc_write_impact(uint8_t *out, uint32_t last, const lc_frontier *all) {
    uint32_t freq = 0, norm = 0, pairs = 0;
    for (int n = all->low; n <= all->high; n++)
        if (all->best[n] > freq) {
            freq = all->best[n];
            pairs++;
        }
    int64_t at = lc_write_varint(out, lc_write_varint(out, 0, last), pairs);
    freq = 0;
    for (int n = all->low; n <= all->high; n++)
        if (all->best[n] > freq) {
            uint64_t step = (uint64_t)(all->best[n] - freq - 1) << 1;
            uint32_t more = (uint32_t)n - norm;
            /* Frequencies are below 2^31: there is no document with more tokens. */
            at = lc_write_varint(out, at, (uint32_t)(step | (more != 1)));
            if (more != 1) out[at++] = (uint8_t)more;
            freq = all->best[n];
            norm = (uint32_t)n;
        }
    return at;
}

#endif
