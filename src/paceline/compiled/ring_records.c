/* Records, boards and messages in shared memory: what board.py and call_recorder.py do, in the same order of stores. */

#define _POSIX_C_SOURCE 200809L /* for clock_gettime */

#include "ring_records.h"

#include <time.h>

enum { RECORD_WORDS = sizeof(Record) / 8, LEFT_WORD = offsetof(Record, left_ns) / 8 };

uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t *record_at(uint64_t *ring, uint64_t number) {
    return ring + RECORDS_AT / 8 + (number & (NUM_SLOTS - 1)) * RECORD_WORDS;
}

/* Copy bytes of a record that lie between two of its offsets, which are multiples of the unit. */
static void store_words(uint64_t *place, const Record *record, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += 8) {
        uint64_t value;
        __builtin_memcpy(&value, (const char *)record + at, 8);
        store_word(place + at / 8, value);
    }
}

static void store_halves(uint64_t *place, const Record *record, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += 4) {
        uint32_t value;
        __builtin_memcpy(&value, (const char *)record + at, 4);
        __atomic_store_n((uint32_t *)(void *)((char *)place + at), value, __ATOMIC_RELEASE);
    }
}

void write_record(uint64_t *ring, Record *record, bool is_message) {
    uint64_t *place = record_at(ring, record->number - 1);
    record->entered_ns = monotonic_ns();
    store_words(place, record, 0, offsetof(Record, root));
    store_halves(place, record, offsetof(Record, root), is_message ? offsetof(Record, spare) : offsetof(Record, peer));
    store_word(ring + NUM_RECORDS, record->number);
}

void leave_record(uint64_t *ring, uint64_t number) {
    store_word(record_at(ring, number) + LEFT_WORD, monotonic_ns());
}

static uint64_t *kept_record(uint64_t *ring, uint64_t request) {
    return ring + REQUESTS_AT / 8 + request * RECORD_WORDS;
}

void keep_record(uint64_t *ring, uint64_t request, uint64_t number) {
    const uint64_t *from = record_at(ring, number);
    uint64_t *to = kept_record(ring, request);
    for (int word = 0; word < RECORD_WORDS; word++) {
        store_word(to + word, word == LEFT_WORD ? 0 : load_word(from + word));
    }
}

void clear_kept_record(uint64_t *ring, uint64_t request) {
    store_word(kept_record(ring, request), 0);
}

bool is_in_ring(const uint64_t *ring, uint64_t number) {
    return load_word(record_at((uint64_t *)ring, number)) == number + 1;
}

/* -------------------------------------------------------------------------------------------- collectives */

enum { ROOT_MASK = (1 << (OPERATION_SHIFT - ROOT_SHIFT)) - 1, REDUCTION_MASK = 0xFF, NO_ROOT = 0 };
#define NUM_PLACES ((UINT64_C(1) << (64 - PLACE_SHIFT)) - 1)

/* As in Python: this member has withdrawn a call at the position, which the judge alone compares. */
#define WITHDREW (UINT64_C(1) << WITHDREW_SHIFT)

uint64_t pack_call(uint64_t operation, int64_t root, uint64_t reduction) {
    return operation << OPERATION_SHIFT | ((uint64_t)(root + 1) & ROOT_MASK) << ROOT_SHIFT | reduction;
}

uint64_t pack_size(uint64_t dtype, int64_t num_bytes) {
    if (num_bytes == 0) {
        return 0; /* nothing at all has no type */
    }
    uint64_t most = UNKNOWN_BYTES - 1, size = (uint64_t)num_bytes;
    return dtype << 56 | (num_bytes < 0 ? UNKNOWN_BYTES : size < most ? size : most);
}

static bool calls_differ(uint64_t mine, uint64_t other) {
    if (mine == other) {
        return false;
    }
    if (mine >> OPERATION_SHIFT != other >> OPERATION_SHIFT) {
        return true;
    }
    uint64_t my_root = mine >> ROOT_SHIFT & ROOT_MASK, other_root = other >> ROOT_SHIFT & ROOT_MASK;
    uint64_t mine_reduces = mine & REDUCTION_MASK, other_reduces = other & REDUCTION_MASK;
    bool roots_differ = my_root != other_root && my_root != NO_ROOT && other_root != NO_ROOT;
    return roots_differ
        || (mine_reduces != other_reduces && mine_reduces != UNKNOWN_REDUCTION && other_reduces != UNKNOWN_REDUCTION);
}

static bool sizes_differ(uint64_t mine, uint64_t other) {
    if (mine == other) {
        return false;
    }
    if (mine >> 56 && other >> 56 && mine >> 56 != other >> 56) {
        return true;
    }
    mine &= UNKNOWN_BYTES;
    other &= UNKNOWN_BYTES;
    return mine != other && mine != UNKNOWN_BYTES && other != UNKNOWN_BYTES;
}

int64_t meet_members(const BoardView *board, uint64_t sequence, uint64_t call, uint64_t size) {
    int64_t row = (int64_t)(sequence & (BOARD_ROWS - 1)) * board->num_columns;
    uint64_t *calls = board->calls + row, *sizes = board->sizes + row;
    call |= (sequence / BOARD_ROWS % NUM_PLACES + 1) << PLACE_SHIFT;
    if (load_word(calls + board->column) >> PLACE_SHIFT == call >> PLACE_SHIFT) {
        call |= WITHDREW;
    }
    store_word(sizes + board->column, size);
    store_word(calls + board->column, call);
    /* The later of two must see the earlier: without this the processor may read before others see what it wrote. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint64_t num_taken = load_word(board->head + NUM_TAKEN);
    for (int64_t other = 0; other < board->num_columns && (uint64_t)other < num_taken; other++) {
        uint64_t theirs = load_word(calls + other);
        if (theirs >> PLACE_SHIFT != call >> PLACE_SHIFT || (call | theirs) & WITHDREW) {
            continue; /* it is not there, or the judge will compare it */
        }
        if (calls_differ(call, theirs) || sizes_differ(size, load_word(sizes + other))) {
            uint64_t member = load_word(board->head + TAKEN_AT + other) - 1;
            return member < (uint64_t)board->num_members ? (int64_t)member : -1;
        }
    }
    return -1;
}

/* -------------------------------------------------------------------------------------------- messages */

uint64_t message_key(int64_t source, int64_t destination, int64_t tag, uint64_t number) {
    uint64_t parts[] = {(uint64_t)source, (uint64_t)destination, (uint64_t)(tag - NOTHING), number};
    uint64_t value = 0;
    for (int part = 0; part < 4; part++) {
        value = (value ^ parts[part]) * UINT64_C(0x9E3779B97F4A7C15);
        value ^= value >> 29;
    }
    return value ? value : 1;
}

bool message_fits(uint64_t sent, uint64_t received) {
    if (sent >> 56 && received >> 56 && sent >> 56 != received >> 56) {
        return false;
    }
    sent &= UNKNOWN_BYTES;
    received &= UNKNOWN_BYTES;
    return sent == UNKNOWN_BYTES || received == UNKNOWN_BYTES || sent <= received;
}

/* A cell is a key and a size. Cells of what is sent come first, then those of what is received. */
static uint64_t *cell_of(uint64_t *board, uint64_t key, bool sent) {
    return board + (sent ? 0 : 2 * MESSAGE_CELLS) + 2 * (key & (MESSAGE_CELLS - 1));
}

bool meet_message(uint64_t *board, uint64_t key, uint64_t size, bool sends) {
    uint64_t *own = cell_of(board, key, sends), *other = cell_of(board, key, !sends);
    store_word(own + 1, size);
    store_word(own, key);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* as for collectives */
    if (load_word(other) != key) {
        return false;
    }
    uint64_t theirs = load_word(other + 1);
    return !(sends ? message_fits(size, theirs) : message_fits(theirs, size));
}

bool sent_differs(const uint64_t *board, uint64_t key, uint64_t size) {
    const uint64_t *cell = cell_of((uint64_t *)board, key, true);
    return load_word(cell) == key && !message_fits(load_word(cell + 1), size);
}
