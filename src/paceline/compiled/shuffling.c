/* Orders of an epoch: an exact shuffle in a table, and a keyed six-round Feistel network for any size.
 *
 * Several numbers go through the network side by side, without a branch, so that a compiler can use vectors of
 * numbers. Those that land outside of the order, which is rare, are then sent on one by one.
 */

#include "kernels.h"

enum { NUM_ROUNDS = 6, BLOCK = 512, MOST_TABLE = 65536 };

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define HAS_WIDE_VECTORS 1 /* compiled a second time for processors with AVX2, and chosen when it runs */
#define INLINE static inline __attribute__((always_inline))
#else
#define HAS_WIDE_VECTORS 0
#define INLINE static inline
#endif

/* A number below `size` has a low half of `low_bits` bits and a high half below `num_high`. */
typedef struct {
    uint64_t size;
    int low_bits;
    uint32_t num_high;
    uint32_t keys[NUM_ROUNDS];
} Network;

/* The word at a position of the key's random stream: SplitMix64. */
static uint32_t random_word(uint64_t key, uint64_t counter) {
    uint64_t state = counter * UINT64_C(0x9E3779B97F4A7C15) + key;
    state = (state ^ state >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    state = (state ^ state >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((state ^ state >> 31) >> 32);
}

void shuffle_table(uint16_t *table, int64_t size, uint64_t key) {
    for (int64_t index = 0; index < size; index++) {
        table[index] = (uint16_t)index;
    }
    for (int64_t last = size - 1; last > 0; last--) {
        uint64_t span = (uint64_t)last + 1, counter = span, scaled;
        do { /* scaling 32 random bits to `span` values favours some of them unless the lowest products are redrawn */
            scaled = random_word(key, counter) * span;
            counter += MOST_TABLE;
        } while ((uint32_t)scaled < (UINT64_C(1) << 32) % span);
        uint64_t partner = scaled >> 32;
        uint16_t entry = table[last];
        table[last] = table[partner];
        table[partner] = entry;
    }
}

static Network make_network(int64_t size, uint64_t key) {
    Network network = {.size = (uint64_t)size};
    int bits = 0;
    while (bits < 63 && (uint64_t)(size - 1) >> bits > 0) {
        bits++;
    }
    network.low_bits = bits > 0 ? (bits + 1) / 2 : 1;
    network.num_high = (uint32_t)(((uint64_t)(size - 1) >> network.low_bits) + 1);
    for (int number = 0; number < NUM_ROUNDS; number++) {
        network.keys[number] = random_word(key, (uint64_t)number);
    }
    return network;
}

/* Hash a word to 32 bits: two multiply-xorshift rounds with low bias. */
INLINE uint32_t scramble(uint32_t word) {
    word = (word ^ word >> 16) * UINT32_C(0x7FEB352D);
    word = (word ^ word >> 15) * UINT32_C(0x846CA68B);
    return word ^ word >> 16;
}

/* The rounds alternate: the low half is xor-ed, the high half is shifted modulo `num_high`. Taken in reverse, with the
 * shift undone, they lead back. */
INLINE void pass_round(const Network *network, int number, bool backward, uint32_t *low, uint32_t *high) {
    if (number % 2 == 0) {
        *low ^= scramble(*high ^ network->keys[number]) >> (32 - network->low_bits);
        return;
    }
    uint32_t num_high = network->num_high;
    uint32_t shift = (uint32_t)((uint64_t)scramble(*low ^ network->keys[number]) * num_high >> 32);
    uint32_t sum = *high + (backward ? num_high - shift : shift), rest = sum - num_high;
    *high = rest < sum ? rest : sum; /* where the sum is below num_high, the rest wraps to a large number */
}

INLINE uint64_t pass_network(const Network *network, uint64_t number, bool backward) {
    uint32_t low = (uint32_t)(number & ((UINT64_C(1) << network->low_bits) - 1));
    uint32_t high = (uint32_t)(number >> network->low_bits);
    for (int turn = 0; turn < NUM_ROUNDS; turn++) {
        pass_round(network, backward ? NUM_ROUNDS - 1 - turn : turn, backward, &low, &high);
    }
    return (uint64_t)high << network->low_bits | low;
}

INLINE void pass_block(const Network *network, uint64_t *numbers, int count, bool backward) {
    for (int index = 0; index < count; index++) {
        numbers[index] = pass_network(network, numbers[index], backward);
    }
}

static void pass_forward(const Network *network, uint64_t *numbers, int count) {
    pass_block(network, numbers, count, false);
}

static void pass_backward(const Network *network, uint64_t *numbers, int count) {
    pass_block(network, numbers, count, true);
}

#if HAS_WIDE_VECTORS
__attribute__((target("avx2"))) static void pass_forward_wide(const Network *network, uint64_t *numbers, int count) {
    pass_block(network, numbers, count, false);
}

__attribute__((target("avx2"))) static void pass_backward_wide(const Network *network, uint64_t *numbers, int count) {
    pass_block(network, numbers, count, true);
}

/* Whether processor and kernel offer AVX2. Compilers have a function for it, which not every one of them can link. */
static bool has_avx2(void) {
    unsigned int a, b, c, d, saved_low, saved_high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) {
        return false;
    }
    __asm__("xgetbv" : "=a"(saved_low), "=d"(saved_high) : "c"(0));
    return (saved_low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#endif

typedef void (*Pass)(const Network *, uint64_t *, int);

static Pass forward_pass = pass_forward, backward_pass = pass_backward;

void choose_vectors(void) {
#if HAS_WIDE_VECTORS
    if (has_avx2()) {
        forward_pass = pass_forward_wide;
        backward_pass = pass_backward_wide;
    }
#endif
}

/* Write a block, after sending numbers that are out of range along their cycles until they are back in it. */
static void write_block(const Network *network, uint64_t *block, int count, bool backward, int64_t *results) {
    uint64_t outside = 0;
    for (int index = 0; index < count; index++) {
        outside += block[index] >= network->size;
        results[index] = (int64_t)block[index];
    }
    for (int index = 0; index < count && outside > 0; index++) {
        if (block[index] >= network->size) {
            while (block[index] >= network->size) {
                block[index] = pass_network(network, block[index], backward);
            }
            results[index] = (int64_t)block[index];
            outside--;
        }
    }
}

void permute(const int64_t *numbers, int64_t count, int64_t size, uint64_t key, bool backward, int64_t *results) {
    const Network network = make_network(size, key);
    const Pass pass = backward ? backward_pass : forward_pass;
    uint64_t block[BLOCK];
    for (int64_t begin = 0; begin < count; begin += BLOCK) {
        int length = count - begin < BLOCK ? (int)(count - begin) : BLOCK;
        for (int index = 0; index < length; index++) {
            block[index] = (uint64_t)numbers[begin + index];
        }
        pass(&network, block, length);
        write_block(&network, block, length, backward, results + begin);
    }
}

void permute_along(int64_t begin, int64_t stride, int64_t count, int64_t size, uint64_t key, int64_t *results) {
    const Network network = make_network(size, key);
    uint64_t block[BLOCK];
    uint64_t step = (uint64_t)(stride % size), next = (uint64_t)(begin % size), end = (uint64_t)size;
    for (int64_t done = 0; done < count; done += BLOCK) {
        int length = count - done < BLOCK ? (int)(count - done) : BLOCK;
        if (step <= (end - 1 - next) / BLOCK) { /* none of them comes to the end */
            for (int index = 0; index < length; index++) {
                block[index] = next + (uint64_t)index * step;
            }
            next += (uint64_t)length * step;
        } else {
            for (int index = 0; index < length; index++) {
                block[index] = next;
                next += step;
                next -= next >= end ? end : 0;
            }
        }
        forward_pass(&network, block, length);
        write_block(&network, block, length, false, results + done);
    }
}
