/* Packing: samples into packs of limited room, each into the fullest pack that still has room for it. */

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

#define WORD 64
#define MOST_LEVELS 6 /* 64 to the power of 6 is above MOST_ROOM */

/* A set of small numbers that finds the next member at once: a bit for each number, then a bit for each word of bits
 * that is not empty, and so on up to a single word. */
typedef struct {
    int num_levels;
    int64_t num_words[MOST_LEVELS];
    uint64_t *words[MOST_LEVELS];
} NumberSet;

static void free_set(NumberSet *set) {
    for (int level = 0; level < set->num_levels; level++) {
        free(set->words[level]);
    }
}

static int make_set(NumberSet *set, int64_t size) {
    set->num_levels = 0;
    do {
        size = (size + WORD - 1) / WORD;
        uint64_t *words = calloc((size_t)size, sizeof *words);
        if (!words) {
            return NO_MEMORY;
        }
        set->words[set->num_levels] = words;
        set->num_words[set->num_levels++] = size;
    } while (size > 1);
    return 0;
}

static void add_number(NumberSet *set, int64_t number) {
    for (int level = 0; level < set->num_levels; level++, number /= WORD) {
        set->words[level][number / WORD] |= UINT64_C(1) << number % WORD;
    }
}

static void remove_number(NumberSet *set, int64_t number) {
    for (int level = 0; level < set->num_levels; level++, number /= WORD) {
        uint64_t *word = &set->words[level][number / WORD];
        *word &= ~(UINT64_C(1) << number % WORD);
        if (*word) {
            return;
        }
    }
}

/* The lowest bit that is set; a word of zeros has none. */
static int lowest_bit(uint64_t word) {
    int bit = 0;
    for (int width = WORD / 2; width > 0; width /= 2) {
        if (!(word & ((UINT64_C(1) << width) - 1))) {
            word >>= width;
            bit += width;
        }
    }
    return bit;
}

/* The least member from `number` on, or -1. */
static int64_t next_number(const NumberSet *set, int64_t number) {
    int level = 0;
    for (;; level++) { /* up, until a word has a member at or after the number */
        if (level == set->num_levels || number / WORD >= set->num_words[level]) {
            return -1;
        }
        uint64_t word = set->words[level][number / WORD] & ~UINT64_C(0) << number % WORD;
        if (word) {
            number = number / WORD * WORD + lowest_bit(word);
            break;
        }
        number = number / WORD + 1;
    }
    while (level > 0) { /* and down to the first member of it */
        number = number * WORD + lowest_bit(set->words[--level][number]);
    }
    return number;
}

/* Packs by the room they have left. Those with the same room lie in a stack: the one that came last is taken first. */
typedef struct {
    NumberSet rooms;
    int32_t *top;   /* of the stack of each room, or -1 */
    int32_t *below; /* of each pack, or -1 */
} Shelf;

static void free_shelf(Shelf *shelf) {
    free_set(&shelf->rooms);
    free(shelf->top);
    free(shelf->below);
}

static int make_shelf(Shelf *shelf, int64_t room, int64_t most_packs) {
    shelf->top = make_array(room + 1, sizeof *shelf->top);
    shelf->below = make_array(most_packs, sizeof *shelf->below);
    if (make_set(&shelf->rooms, room + 1) || !shelf->top || !shelf->below) {
        free_shelf(shelf);
        return NO_MEMORY;
    }
    memset(shelf->top, -1, (size_t)(room + 1) * sizeof *shelf->top);
    return 0;
}

static int32_t take_pack(Shelf *shelf, int64_t room) {
    int32_t pack = shelf->top[room];
    shelf->top[room] = shelf->below[pack];
    if (shelf->top[room] < 0) {
        remove_number(&shelf->rooms, room);
    }
    return pack;
}

static void put_pack(Shelf *shelf, int64_t room, int32_t pack) {
    if (shelf->top[room] < 0) {
        add_number(&shelf->rooms, room);
    }
    shelf->below[pack] = shelf->top[room];
    shelf->top[room] = pack;
}

int64_t best_fit(const int64_t *lengths, int64_t size, int64_t room, int64_t *pack_of) {
    Shelf shelf;
    if (make_shelf(&shelf, room, size)) {
        return NO_MEMORY;
    }
    int32_t num_packs = 0;
    for (int64_t sample = 0; sample < size; sample++) {
        int64_t left = next_number(&shelf.rooms, lengths[sample]);
        int32_t pack = left < 0 ? num_packs++ : take_pack(&shelf, left);
        pack_of[sample] = pack;
        put_pack(&shelf, (left < 0 ? room : left) - lengths[sample], pack);
    }
    free_shelf(&shelf);
    return num_packs;
}
