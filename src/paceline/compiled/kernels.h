/* The kernels: whole numbers in, whole numbers out. They know nothing of Python and run without the GIL.
 *
 * Every choice between equals is made by position, so all machines compute the same numbers bit for bit. There is no
 * floating point here. A function that returns int returns 0, NO_MEMORY, WRONG_NUMBERS or NO_ROOM.
 */
#ifndef PACELINE_KERNELS_H
#define PACELINE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NO_MEMORY = -1, WRONG_NUMBERS = -2, NO_ROOM = -3 };

#define MOST_SLOTS INT32_MAX /* slots are counted in 32 bits: of a sort, and so of groups */

/* sorting.c */

/* Room for a sort of up to `capacity` numbers. */
typedef struct {
    uint64_t *keys, *spare;
    int32_t *spare_slots;
    int64_t *starts;
    uint32_t *short_keys, *short_spare, *short_starts; /* for numbers that fit into 32 bits together with their slots */
    int64_t capacity;
} SortRoom;

int make_sort_room(SortRoom *room, int64_t capacity);
void free_sort_room(SortRoom *room);

/* Sort the values, and say where each one stood before. Equal ones keep their order. */
void sort_rising(int64_t *values, int32_t *slots, int64_t size, SortRoom *room);

/* Write the indices from the largest to the smallest number; equal ones in their order. Numbers are at least -1. */
int heaviest_first(const int64_t *costs, int64_t size, int64_t *order);

/* An array of `count` times `width` bytes, or NULL; never NULL for want of a count. */
void *make_array(int64_t count, size_t width);

/* groups.c */

/* Add up the numbers of each group. */
void add_up_groups(const int64_t *group_of, const int64_t *numbers, int64_t size, int64_t num_groups, int64_t *sums);

/* Write the samples group after group, real ones in rising order and then padding, and where each group ends. */
int list_members(
    const int64_t *group_of, const uint8_t *real, int64_t size, int64_t num_groups, int64_t *members, int64_t *ends);

/* dealing.c: `falling` has the costs in the order of `order`, the heaviest first. */

int deal_longest_first(
    const int64_t *falling, const int64_t *order, int64_t size, int64_t num_groups, int64_t *group_of);
int deal_by_differencing(
    const int64_t *falling, const int64_t *order, int64_t size, int64_t num_groups, int64_t *group_of);

/* swapping.c */

typedef struct {
    const int64_t *falling, *order; /* costs in the order of `order`, the heaviest first */
    int64_t size, num_groups;
    int64_t target;        /* the load at which a group is light enough */
    int64_t slack;         /* if positive: groups are first filled up to within this of the target, one after the other */
    const int64_t *memory; /* what each sample needs of its group's memory; not read without a limit */
    int64_t limit;         /* the memory of a group; none if negative */
    int64_t max_sweeps;
} SwapTask;

/* Swap samples between groups until none is heavier than the target, or nothing helps. */
int swap_until_even(const SwapTask *task, int64_t *group_of);

/* hosts.c */

typedef struct {
    const int64_t *falling, *order; /* costs in the order of `order`, the heaviest first, padding last */
    const int64_t *costs;           /* of each sample */
    const int64_t *bytes;           /* what each sample takes when it travels */
    const uint8_t *real;            /* of each sample */
    int64_t size;
    const int64_t *host_of; /* of each group */
    int64_t num_groups, num_hosts;
    int64_t host_target; /* the load for each of its groups at which a host is light enough */
    int64_t target;      /* the load at which a group is light enough; not below `host_target` */
    int64_t limit;       /* bytes that a host may send to others, and receive from them; none if negative */
    int64_t max_sweeps;
    int64_t *sent, *received; /* bytes of each host: what it has crossed already, and then what does */
} HostTask;

/* Swap samples between groups, as few bytes between hosts as will do, until none is heavier than the target or nothing
 * helps. */
int even_out_hosts(const HostTask *task, int64_t *group_of);

/* packing.c */

#define MOST_ROOM (INT64_C(1) << 30) /* of a pack: memory grows with it */

/* Put each sample in turn into the fullest pack that has room for it, or into a new one. Of equally full packs it is the
 * one that was filled last. Lengths are at most `room`. Returns the number of packs. */
int64_t best_fit(const int64_t *lengths, int64_t size, int64_t room, int64_t *pack_of);

/* spreading.c */

typedef struct {
    const int64_t *lengths, *costs; /* of each piece */
    const int64_t *order;           /* the pieces, the heaviest first */
    int64_t size, num_packs;
    int64_t room; /* of a pack */
    int64_t most; /* pieces of a pack */
} SpreadTask;

/* Give each piece in turn to the lightest pack that has room. Returns NO_ROOM if one finds none. */
int spread_pieces(const SpreadTask *task, int64_t *pack_of);

/* shuffling.c */

/* Look once, before the first shuffle, at what the processor offers. The results do not depend on it. */
void choose_vectors(void);

/* Shuffle the numbers below `size` exactly, by the key's random stream. */
void shuffle_table(uint16_t *table, int64_t size, uint64_t key);

/* Send numbers below `size` through the keyed network, forward or backward. `numbers` may be `results`. */
void permute(const int64_t *numbers, int64_t count, int64_t size, uint64_t key, bool backward, int64_t *results);

/* Send `begin`, `begin + stride` and so on forward through the network, each taken modulo `size`. */
void permute_along(int64_t begin, int64_t stride, int64_t count, int64_t size, uint64_t key, int64_t *results);

/* pickle_steps.c */

/* Return how many steps a pickle has, up to the one that ends it; WRONG_NUMBERS if it has more than `most_steps`, is cut
 * off, has a step that no protocol knows, or asks for a place whose number is higher than that of the step. */
int64_t count_pickle_steps(const uint8_t *data, int64_t size, int64_t most_steps);

#endif
