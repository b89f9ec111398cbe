/* A hash table with open addressing, for call sites and channels: some hundred entries, asked at every call. */

#include "ring_records.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* Return the place of a key, or the free place where it belongs. A quarter of the places is always free. */
static size_t place_of(const NumberTable *table, const uint64_t *key) {
    uint64_t hash = 0;
    for (size_t part = 0; part < table->width; part++) {
        hash = (hash ^ key[part]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    size_t place = hash & (table->capacity - 1);
    while (table->values[place] && memcmp(table->keys + place * table->width, key, table->width * sizeof *key) != 0) {
        place = (place + 1) & (table->capacity - 1);
    }
    return place;
}

uint32_t find_number(const NumberTable *table, const uint64_t *key) {
    return table->capacity ? table->values[place_of(table, key)] : 0;
}

static void put(NumberTable *table, const uint64_t *key, uint32_t value) {
    size_t place = place_of(table, key);
    table->size += table->values[place] == 0;
    table->values[place] = value;
    memcpy(table->keys + place * table->width, key, table->width * sizeof *key);
}

static bool grow(NumberTable *table) {
    size_t capacity = table->capacity ? 2 * table->capacity : FIRST_CAPACITY;
    NumberTable larger = {.width = table->width, .capacity = capacity};
    larger.keys = calloc(capacity * table->width, sizeof *larger.keys);
    larger.values = calloc(capacity, sizeof *larger.values);
    if (!larger.keys || !larger.values) {
        free_numbers(&larger);
        return false;
    }
    for (size_t place = 0; place < table->capacity; place++) {
        if (table->values[place]) {
            put(&larger, table->keys + place * table->width, table->values[place]);
        }
    }
    free_numbers(table);
    *table = larger;
    return true;
}

bool add_number(NumberTable *table, const uint64_t *key, uint32_t value) {
    if (4 * (table->size + 1) > 3 * table->capacity && !grow(table)) {
        return false;
    }
    put(table, key, value);
    return true;
}

void free_numbers(NumberTable *table) {
    free(table->keys);
    free(table->values);
    table->keys = NULL;
    table->values = NULL;
    table->capacity = table->size = 0;
}
