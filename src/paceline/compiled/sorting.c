/* Sorts: by digits where numbers lie close together, by comparison where they do not. */

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

enum {
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
    FEW_DIGIT_BITS = 8, /* for few numbers, clearing the counts of a long digit takes longer than another pass */
    FEW = 512,
    RUN = 12,         /* runs of this many are sorted by insertion, then merged */
    COUNTED = 48,     /* from this many on, numbers that lie close together are sorted by digits */
    MOST_COUNTS = 1 << 18 /* up to this many values, each is counted on its own */
};

void *make_array(int64_t count, size_t width) {
    if (count < 0 || (uint64_t)count > SIZE_MAX / width) {
        return NULL;
    }
    return malloc(count > 0 ? (size_t)count * width : 1);
}

int make_sort_room(SortRoom *room, int64_t capacity) {
    room->capacity = capacity;
    room->keys = make_array(capacity, sizeof *room->keys);
    room->spare = make_array(capacity, sizeof *room->spare);
    room->spare_slots = make_array(capacity, sizeof *room->spare_slots);
    room->starts = make_array(DIGITS, sizeof *room->starts);
    room->short_keys = make_array(capacity, sizeof *room->short_keys);
    room->short_spare = make_array(capacity, sizeof *room->short_spare);
    room->short_starts = make_array(DIGITS, sizeof *room->short_starts);
    if (room->keys && room->spare && room->spare_slots && room->starts && room->short_keys && room->short_spare
        && room->short_starts) {
        return 0;
    }
    free_sort_room(room);
    return NO_MEMORY;
}

void free_sort_room(SortRoom *room) {
    free(room->keys);
    free(room->spare);
    free(room->spare_slots);
    free(room->starts);
    free(room->short_keys);
    free(room->short_spare);
    free(room->short_starts);
}

static int bits_of(uint64_t number) {
    int bits = 0;
    while (number > 0) {
        bits++;
        number >>= 1;
    }
    return bits;
}

/* Turn counts into where each one's run starts. */
static void make_starts(int64_t *counts, int64_t num_counts) {
    int64_t begin = 0;
    for (int64_t index = 0; index < num_counts; index++) {
        int64_t count = counts[index];
        counts[index] = begin;
        begin += count;
    }
}

/* How many bits a digit has if `bits` are cut into as few as there can be, all of the same length. */
static int digit_bits_of(int bits, int64_t size) {
    int most_bits = size < FEW ? FEW_DIGIT_BITS : DIGIT_BITS, passes = (bits + most_bits - 1) / most_bits;
    return passes > 0 ? (bits + passes - 1) / passes : 1;
}

/* Sort keys by the `bits` bits above `shift`; keys that agree there keep their order. Returns where the result is. */
static uint64_t *sort_by_digits(
    uint64_t *keys, uint64_t *spare, int64_t size, int shift, int bits, int64_t *starts) {
    int digit_bits = digit_bits_of(bits, size);
    const uint64_t mask = ((uint64_t)1 << digit_bits) - 1;
    for (int end = shift + bits; shift < end; shift += digit_bits) {
        memset(starts, 0, sizeof *starts << digit_bits);
        for (int64_t index = 0; index < size; index++) {
            starts[keys[index] >> shift & mask]++;
        }
        make_starts(starts, (int64_t)mask + 1);
        for (int64_t index = 0; index < size; index++) {
            spare[starts[keys[index] >> shift & mask]++] = keys[index];
        }
        uint64_t *swapped = keys;
        keys = spare;
        spare = swapped;
    }
    return keys;
}

static void insert_run(int64_t *values, int32_t *slots, int64_t begin, int64_t end) {
    for (int64_t index = begin + 1; index < end; index++) {
        int64_t value = values[index], position = index;
        int32_t slot = slots[index];
        while (position > begin && values[position - 1] > value) {
            values[position] = values[position - 1];
            slots[position] = slots[position - 1];
            position--;
        }
        values[position] = value;
        slots[position] = slot;
    }
}

static void merge_runs(int64_t *values, int32_t *slots, int64_t begin, int64_t middle, int64_t end, SortRoom *room) {
    int64_t *spare_values = (int64_t *)room->spare;
    int32_t *spare_slots = room->spare_slots;
    if (values[middle - 1] <= values[middle]) {
        return;
    }
    int64_t num_left = middle - begin, left = 0, right = middle, position = begin;
    memcpy(spare_values, values + begin, (size_t)num_left * sizeof *values);
    memcpy(spare_slots, slots + begin, (size_t)num_left * sizeof *slots);
    while (left < num_left) {
        if (right < end && values[right] < spare_values[left]) {
            values[position] = values[right];
            slots[position++] = slots[right++];
        } else {
            values[position] = spare_values[left];
            slots[position++] = spare_slots[left++];
        }
    }
}

static void sort_by_comparing(int64_t *values, int32_t *slots, int64_t size, SortRoom *room) {
    for (int64_t index = 0; index < size; index++) {
        slots[index] = (int32_t)index;
    }
    for (int64_t begin = 0; begin < size; begin += RUN) {
        insert_run(values, slots, begin, begin + RUN < size ? begin + RUN : size);
    }
    for (int64_t width = RUN; width < size; width *= 2) {
        for (int64_t begin = 0; begin + width < size; begin += 2 * width) {
            int64_t end = begin + 2 * width < size ? begin + 2 * width : size;
            merge_runs(values, slots, begin, begin + width, end, room);
        }
    }
}

/* Count the digits above `shift`, and turn the counts into where each one's run starts. */
static void count_short_digits(const uint32_t *keys, int64_t size, int shift, uint32_t mask, uint32_t *starts) {
    memset(starts, 0, ((size_t)mask + 1) * sizeof *starts);
    for (int64_t index = 0; index < size; index++) {
        starts[keys[index] >> shift & mask]++;
    }
    uint32_t begin = 0;
    for (uint32_t digit = 0; digit <= mask; digit++) {
        uint32_t count = starts[digit];
        starts[digit] = begin;
        begin += count;
    }
}

/* Sort by digits, with value and slot in 32 bits. The last pass writes what was asked for. */
static void sort_short(int64_t *values, int32_t *slots, int64_t low, int64_t size, int slot_bits, int bits, SortRoom *room) {
    int digit_bits = digit_bits_of(bits, size), shift = slot_bits;
    const uint32_t mask = ((uint32_t)1 << digit_bits) - 1, slot_mask = ((uint32_t)1 << slot_bits) - 1;
    uint32_t *keys = room->short_keys, *spare = room->short_spare, *starts = room->short_starts;
    for (int64_t index = 0; index < size; index++) {
        keys[index] = (uint32_t)((uint64_t)values[index] - (uint64_t)low) << slot_bits | (uint32_t)index;
    }
    for (; shift + digit_bits < slot_bits + bits; shift += digit_bits) {
        count_short_digits(keys, size, shift, mask, starts);
        for (int64_t index = 0; index < size; index++) {
            spare[starts[keys[index] >> shift & mask]++] = keys[index];
        }
        uint32_t *swapped = keys;
        keys = spare;
        spare = swapped;
    }
    count_short_digits(keys, size, shift, mask, starts);
    for (int64_t index = 0; index < size; index++) {
        uint32_t place = starts[keys[index] >> shift & mask]++;
        values[place] = (int64_t)((uint64_t)(keys[index] >> slot_bits) + (uint64_t)low);
        slots[place] = (int32_t)(keys[index] & slot_mask);
    }
}

void sort_rising(int64_t *values, int32_t *slots, int64_t size, SortRoom *room) {
    if (size < COUNTED) {
        sort_by_comparing(values, slots, size, room);
        return;
    }
    int64_t low = values[0], high = values[0];
    for (int64_t index = 1; index < size; index++) {
        low = values[index] < low ? values[index] : low;
        high = values[index] > high ? values[index] : high;
    }
    /* value and slot in one number: no two are equal, so the digits of the value alone decide */
    int slot_bits = bits_of((uint64_t)size - 1), bits = bits_of((uint64_t)high - (uint64_t)low);
    if (bits > 32) { /* it would take four passes or more: comparing is faster */
        sort_by_comparing(values, slots, size, room);
        return;
    }
    if (slot_bits + bits <= 32) {
        sort_short(values, slots, low, size, slot_bits, bits, room);
        return;
    }
    for (int64_t index = 0; index < size; index++) {
        room->keys[index] = ((uint64_t)values[index] - (uint64_t)low) << slot_bits | (uint64_t)index;
    }
    const uint64_t *sorted = sort_by_digits(room->keys, room->spare, size, slot_bits, bits, room->starts);
    const uint64_t mask = ((uint64_t)1 << slot_bits) - 1;
    for (int64_t index = 0; index < size; index++) {
        values[index] = (int64_t)(sorted[index] >> slot_bits) + low;
        slots[index] = (int32_t)(sorted[index] & mask);
    }
}

/* Key and index do not fit into one number: sort the indices, looking their keys up. */
static void sort_indices(const int64_t *costs, int64_t top, int bits, int64_t size, int64_t *order, SortRoom *room) {
    int64_t *from = (int64_t *)room->keys, *into = (int64_t *)room->spare, *starts = room->starts;
    for (int64_t index = 0; index < size; index++) {
        from[index] = index;
    }
    for (int shift = 0; shift < bits; shift += DIGIT_BITS) {
        memset(starts, 0, DIGITS * sizeof *starts);
        for (int64_t index = 0; index < size; index++) {
            starts[(top - costs[index]) >> shift & (DIGITS - 1)]++;
        }
        make_starts(starts, DIGITS);
        for (int64_t index = 0; index < size; index++) {
            into[starts[(top - costs[from[index]]) >> shift & (DIGITS - 1)]++] = from[index];
        }
        int64_t *swapped = from;
        from = into;
        into = swapped;
    }
    memcpy(order, from, (size_t)size * sizeof *order);
}

/* The numbers lie so close together that each value has a count of its own. */
static int sort_by_counting(const int64_t *costs, int64_t top, int64_t num_values, int64_t size, int64_t *order) {
    int64_t *starts = make_array(num_values, sizeof *starts);
    if (!starts) {
        return NO_MEMORY;
    }
    memset(starts, 0, (size_t)num_values * sizeof *starts);
    for (int64_t index = 0; index < size; index++) {
        starts[top - costs[index]]++;
    }
    make_starts(starts, num_values);
    for (int64_t index = 0; index < size; index++) {
        order[starts[top - costs[index]]++] = index;
    }
    free(starts);
    return 0;
}

int heaviest_first(const int64_t *costs, int64_t size, int64_t *order) {
    SortRoom room;
    if (size == 0) {
        return 0;
    }
    int64_t top = costs[0], low = costs[0];
    for (int64_t index = 1; index < size; index++) {
        top = costs[index] > top ? costs[index] : top;
        low = costs[index] < low ? costs[index] : low;
    }
    if (top - low < MOST_COUNTS && top - low < 2 * size) {
        return sort_by_counting(costs, top, top - low + 1, size, order);
    }
    if (make_sort_room(&room, size) < 0) {
        return NO_MEMORY;
    }
    int index_bits = bits_of((uint64_t)size - 1), bits = bits_of((uint64_t)(top - low));
    if (index_bits + bits > 64) {
        sort_indices(costs, top, bits, size, order, &room);
    } else {
        for (int64_t index = 0; index < size; index++) {
            room.keys[index] = (uint64_t)(top - costs[index]) << (index_bits & 63) | (uint64_t)index;
        }
        const uint64_t *sorted = sort_by_digits(room.keys, room.spare, size, index_bits, bits, room.starts);
        const uint64_t mask = ((uint64_t)1 << index_bits) - 1;
        for (int64_t index = 0; index < size; index++) {
            order[index] = (int64_t)(sorted[index] & mask);
        }
    }
    free_sort_room(&room);
    return 0;
}
