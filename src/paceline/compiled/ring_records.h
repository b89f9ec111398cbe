/* What a watched rank writes to shared memory, as C sees it. Python's own view is in guard/shared_memory: both must be
 * the same, which Python checks before it uses any of this (RING_LAYOUT).
 *
 * Other processes read while this one writes, and nobody locks. So every store here is a release store: whoever sees
 * one of them sees those before it too, in the order in which they stand in the source.
 */
#ifndef PACELINE_RING_RECORDS_H
#define PACELINE_RING_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_NUMBERS(X)                                                                                                \
    X(NUM_RECORDS, 5)                                                                                                  \
    X(COMMS_AT, 128)                                                                                                   \
    X(MAX_COMMS, 256)                                                                                                  \
    X(RECORDS_AT, 40960)                                                                                               \
    X(NUM_SLOTS, 4096)                                                                                                 \
    X(RING_BYTES, 1048576)                                                                                             \
    X(BOARD_ROWS, 64)                                                                                                  \
    X(MESSAGE_CELLS, 4096)                                                                                             \
    X(ROOT_SHIFT, 8)                                                                                                   \
    X(OPERATION_SHIFT, 31)                                                                                             \
    X(WITHDREW_SHIFT, 40)                                                                                              \
    X(PLACE_SHIFT, 41)                                                                                                 \
    X(MOST_COLUMNS, 1024)                                                                                              \
    X(NUM_TAKEN, 1)                                                                                                    \
    X(TAKEN_AT, 2)                                                                                                     \
    X(THREADS_AT, 64)                                                                                                  \
    X(THREAD_WORDS, 4)                                                                                                 \
    X(WAITED_AT, 8192)                                                                                                  \
    X(MAX_WAITED, 1024)                                                                                                \
    X(REQUESTS_AT, 598016)                                                                                                \
    X(MAX_REQUESTS, 1024)                                                                                              \
    X(NONBLOCKING, 1)                                                                                                  \
    X(WITHDRAWN, 32)                                                                                                   \
    X(STOP_COLLECTIVE, 1)                                                                                              \
    X(STOP_MESSAGE, 2)                                                                                                 \
    X(SENT, 1)                                                                                                         \
    X(RECEIVED, 2)                                                                                                     \
    X(UNKNOWN_REDUCTION, 18)

enum {
#define X(name, value) name = value,
    RING_NUMBERS(X)
#undef X
};

enum { NOTHING = -1, ANY = -2 };
#define UNKNOWN_BYTES ((UINT64_C(1) << 56) - 1)

/* A record in the ring. The last fields do not lie on multiples of 8, so they are halves. */
typedef struct {
    uint64_t number, entered_ns, left_ns;
    int64_t sequence;
    uint64_t at_site;
    int64_t num_bytes, count, members_hash;
    int32_t root;
    uint32_t site;
    uint16_t communicator, operation, dtype, reduction, flags, request;
    int32_t peer, tag, source, source_tag, num_requests;
    uint32_t source_dtype;
    uint32_t message_number[2], source_number[2], source_bytes[2];
    uint32_t spare;
} Record;

_Static_assert(sizeof(Record) == 136 && offsetof(Record, root) == 64 && offsetof(Record, peer) == 84, "as in Python");

#define RECORD_FIELDS(X)                                                                                               \
    X(number) X(entered_ns) X(left_ns) X(sequence) X(at_site) X(num_bytes) X(count) X(members_hash) X(root) X(site)    \
    X(communicator) X(operation) X(dtype) X(reduction) X(flags) X(request) X(peer) X(tag) X(source) X(source_tag)      \
    X(num_requests) X(source_dtype) X(message_number) X(source_number) X(source_bytes)

static inline void store_word(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint64_t load_word(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

uint64_t monotonic_ns(void);

/* Write a record that is new but for its time, and then count it. Collectives leave the part of messages as it was. */
void write_record(uint64_t *ring, Record *record, bool is_message);

/* Say when the call of a record returned. */
void leave_record(uint64_t *ring, uint64_t number);

/* Copy the record of a request to where later ones do not overwrite it, as one that is under way; forget it. */
void keep_record(uint64_t *ring, uint64_t request, uint64_t number);
void clear_kept_record(uint64_t *ring, uint64_t request);

/* Whether a record is still there: a later one takes its place some time. */
bool is_in_ring(const uint64_t *ring, uint64_t number);

/* The board of a communicator, with a column for each of its members on this machine: see
 * guard/shared_memory/board.py. */
typedef struct {
    uint64_t *head, *calls, *sizes;
    int64_t column, num_columns, num_members;
} BoardView;

uint64_t pack_call(uint64_t operation, int64_t root, uint64_t reduction);
uint64_t pack_size(uint64_t dtype, int64_t num_bytes);

/* Write what this member is about to call; return a member that calls differently, or -1. */
int64_t meet_members(const BoardView *board, uint64_t sequence, uint64_t call, uint64_t size);

uint64_t message_key(int64_t source, int64_t destination, int64_t tag, uint64_t number);
bool message_fits(uint64_t sent, uint64_t received);

/* Write one side of a message; say whether the other side is there and does not fit. */
bool meet_message(uint64_t *board, uint64_t key, uint64_t size, bool sends);

/* Whether what the sender has written, if it is still there, does not go into a receive of this size. */
bool sent_differs(const uint64_t *board, uint64_t key, uint64_t size);

/* A table from a few whole numbers to one that is not 0. It only grows. */
typedef struct {
    size_t width, capacity, size; /* numbers of a key; places, a power of two; places taken */
    uint64_t *keys;
    uint32_t *values; /* 0: the place is free */
} NumberTable;

uint32_t find_number(const NumberTable *table, const uint64_t *key);
bool add_number(NumberTable *table, const uint64_t *key, uint32_t value); /* false: no memory */
void free_numbers(NumberTable *table);

#endif
