/* Swaps between groups that are there already, until their loads are even. */

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* The groups while samples are swapped. Each has `width` slots, one of them to spare during a swap. A member is the place
 * of a sample in the order of the task: a quarter of the memory that its cost and its number would take. */
typedef struct {
    const SwapTask *task;
    int64_t width;
    uint32_t *members; /* (group, slot): the samples of each group, costs rising */
    int64_t *sizes, *loads, *used;
    int64_t *ranked;  /* loads as they are sorted */
    int32_t *ranking; /* groups, the heaviest first */
    SortRoom room;
    int64_t *group_of;
} Swapper;

/* Two samples to swap, and by how much that lightens the heavy group. `other` is -1 where one is only moved. */
typedef struct {
    int64_t one, other, shift;
} Swap;

static void free_swapper(Swapper *swapper) {
    free(swapper->members);
    free(swapper->sizes);
    free(swapper->loads);
    free(swapper->used);
    free(swapper->ranked);
    free(swapper->ranking);
    free_sort_room(&swapper->room);
}

static int make_swapper(Swapper *swapper, const SwapTask *task, int64_t *group_of) {
    int64_t num_groups = task->num_groups, width = task->size / num_groups + 2;
    if (task->size > UINT32_MAX) {
        return WRONG_NUMBERS;
    }
    if (width > INT64_MAX / num_groups || make_sort_room(&swapper->room, num_groups) < 0) {
        return NO_MEMORY;
    }
    swapper->task = task;
    swapper->group_of = group_of;
    swapper->width = width;
    swapper->members = make_array(num_groups * width, sizeof *swapper->members);
    swapper->sizes = make_array(num_groups, sizeof *swapper->sizes);
    swapper->loads = make_array(num_groups, sizeof *swapper->loads);
    swapper->used = make_array(num_groups, sizeof *swapper->used);
    swapper->ranked = make_array(num_groups, sizeof *swapper->ranked);
    swapper->ranking = make_array(num_groups, sizeof *swapper->ranking);
    if (swapper->members && swapper->sizes && swapper->loads && swapper->used && swapper->ranked && swapper->ranking) {
        return 0;
    }
    free_swapper(swapper);
    return NO_MEMORY;
}

/* Returns false if a group has too many samples: sizes must differ by at most 1. */
static bool fill_groups(Swapper *swapper) {
    const SwapTask *task = swapper->task;
    for (int64_t group = 0; group < task->num_groups; group++) {
        swapper->sizes[group] = swapper->loads[group] = swapper->used[group] = 0;
    }
    for (int64_t item = task->size - 1; item >= 0; item--) { /* the lightest first, so that costs rise along a group */
        int64_t sample = task->order[item], group = swapper->group_of[sample];
        if (swapper->sizes[group] + 1 >= swapper->width) {
            return false;
        }
        swapper->members[group * swapper->width + swapper->sizes[group]++] = (uint32_t)item;
        swapper->loads[group] += task->falling[item];
        if (task->limit >= 0) {
            swapper->used[group] += task->memory[sample];
        }
    }
    return true;
}

static int64_t distance(int64_t gap, int64_t shift) { /* how far from half of the gap, doubled: less is better */
    int64_t difference = gap - 2 * shift;
    return difference < 0 ? -difference : difference;
}

/* What a sample needs of its group's memory. */
static int64_t memory_of(const SwapTask *task, uint32_t member) {
    return task->memory[task->order[member]];
}

/* Find the one sample of the heavy group whose move to the light one, which has fewer, helps most. */
static Swap best_move(const Swapper *swapper, int64_t heavy, int64_t light, int64_t gap, bool capped, int64_t room) {
    const uint32_t *members = swapper->members + heavy * swapper->width;
    Swap best = {-1, -1, 0};
    if (swapper->sizes[heavy] <= swapper->sizes[light]) {
        return best;
    }
    for (int64_t position = 0; position < swapper->sizes[heavy]; position++) {
        int64_t shift = swapper->task->falling[members[position]];
        if (shift <= 0 || shift >= gap || (best.shift != 0 && distance(gap, shift) >= distance(gap, best.shift))) {
            continue;
        }
        if (!capped || memory_of(swapper->task, members[position]) <= room) {
            best = (Swap){position, -1, shift};
        }
    }
    return best;
}

/* Find the swap that best evens out two groups.
 *
 * A shift from `enough` to `most` leaves both light enough, so the first such swap is taken. A swap that shifts `shift`
 * leaves a gap of |gap - 2 shift|: the nearer to half of the gap, the better.
 */
static Swap best_swap(const Swapper *swapper, int64_t heavy, int64_t light, int64_t gap) {
    const SwapTask *task = swapper->task;
    const uint32_t *one = swapper->members + heavy * swapper->width, *other = swapper->members + light * swapper->width;
    const int64_t *falling = task->falling;
    int64_t num_other = swapper->sizes[light];
    int64_t enough = swapper->loads[heavy] - task->target, most = task->target - swapper->loads[light];
    int64_t room = -1, other_room = -1; /* what is left of the groups' memory */
    if (task->limit >= 0) {
        room = task->limit - swapper->used[heavy];
        other_room = task->limit - swapper->used[light];
    }
    bool capped = room >= 0; /* a group that is above its limit already may change in any way */
    Swap best = best_move(swapper, heavy, light, gap, capped, other_room);
    int64_t partner = 0; /* as costs rise along the heavy group, the best partner only moves forward */
    for (int64_t position = 0; position < swapper->sizes[heavy]; position++) {
        int64_t cost = falling[one[position]];
        while (partner < num_other && cost - falling[other[partner]] > gap - (cost - falling[other[partner]])) {
            partner++;
        }
        /* the last that shifts more than half, and the first that does not */
        for (int64_t candidate = partner - (partner > 0); candidate <= partner && candidate < num_other; candidate++) {
            int64_t shift = cost - falling[other[candidate]];
            if (shift <= 0 || shift >= gap || (best.shift != 0 && distance(gap, shift) >= distance(gap, best.shift))) {
                continue;
            }
            if (capped) {
                int64_t more = memory_of(task, one[position]) - memory_of(task, other[candidate]);
                if (more > other_room || -more > room) {
                    continue;
                }
            }
            best = (Swap){position, candidate, shift};
            if (enough <= shift && shift <= most) {
                return best;
            }
        }
    }
    return best;
}

/* Put a sample into a sorted group, behind those that cost as much. */
static void put(Swapper *swapper, int64_t group, uint32_t member) {
    const int64_t *falling = swapper->task->falling;
    uint32_t *members = swapper->members + group * swapper->width;
    int64_t position = swapper->sizes[group]++;
    while (position > 0 && falling[members[position - 1]] > falling[member]) {
        members[position] = members[position - 1];
        position--;
    }
    members[position] = member;
    swapper->group_of[swapper->task->order[member]] = group;
}

/* Take a sample out of its group, and close the gap that it leaves. */
static uint32_t take(Swapper *swapper, int64_t group, int64_t position) {
    uint32_t *members = swapper->members + group * swapper->width, member = members[position];
    size_t behind = (size_t)(--swapper->sizes[group] - position);
    memmove(members + position, members + position + 1, behind * sizeof *members);
    return member;
}

static void make_swap(Swapper *swapper, int64_t heavy, int64_t light, Swap best) {
    uint32_t one = take(swapper, heavy, best.one);
    int64_t needs = swapper->task->limit >= 0 ? memory_of(swapper->task, one) : 0;
    if (best.other >= 0) {
        uint32_t other = take(swapper, light, best.other);
        put(swapper, heavy, other);
        needs -= swapper->task->limit >= 0 ? memory_of(swapper->task, other) : 0;
    }
    put(swapper, light, one);
    swapper->loads[heavy] -= best.shift;
    swapper->loads[light] += best.shift;
    swapper->used[heavy] -= needs;
    swapper->used[light] += needs;
}

/* Make the best swap between two groups, if one helps. */
static bool swap_once(Swapper *swapper, int64_t heavy, int64_t light) {
    int64_t gap = swapper->loads[heavy] - swapper->loads[light];
    if (gap <= 1) {
        return false;
    }
    Swap best = best_swap(swapper, heavy, light, gap);
    if (best.one < 0) {
        return false;
    }
    make_swap(swapper, heavy, light, best);
    return true;
}

static void rank_groups(Swapper *swapper) {
    for (int64_t group = 0; group < swapper->task->num_groups; group++) {
        swapper->ranked[group] = -swapper->loads[group];
    }
    sort_rising(swapper->ranked, swapper->ranking, swapper->task->num_groups, &swapper->room);
}

/* Pair the heaviest group with the lightest, the second with the second lightest and so on, and swap once in each pair.
 * If that does not help, the heaviest tries all others. Returns whether anything helped. */
static bool sweep(Swapper *swapper) {
    int64_t num_groups = swapper->task->num_groups;
    const int32_t *ranking = swapper->ranking;
    bool helped = false;
    for (int64_t pair = 0; pair < num_groups / 2; pair++) {
        if (swapper->loads[ranking[pair]] <= swapper->task->target) {
            break;
        }
        helped |= swap_once(swapper, ranking[pair], ranking[num_groups - 1 - pair]);
    }
    for (int64_t partner = num_groups - 1; partner > 0 && !helped; partner--) {
        helped = swap_once(swapper, ranking[0], ranking[partner]);
    }
    return helped;
}

/* Find a swap after which one of two groups is done: the heavy one is light enough, or the light one is full. Where one
 * swap cannot do that, it is the one that shifts most. */
static Swap filling_swap(const Swapper *swapper, int64_t heavy, int64_t light) {
    const SwapTask *task = swapper->task;
    const uint32_t *one = swapper->members + heavy * swapper->width, *other = swapper->members + light * swapper->width;
    int64_t num_other = swapper->sizes[light], partner = 0;
    int64_t enough = swapper->loads[heavy] - task->target, most = task->target - swapper->loads[light];
    int64_t least = enough < most ? enough : most - task->slack;
    Swap best = {-1, -1, 0};
    for (int64_t position = 0; position < swapper->sizes[heavy]; position++) {
        int64_t cost = task->falling[one[position]];
        while (partner < num_other && cost - task->falling[other[partner]] > most) {
            partner++;
        }
        int64_t shift = partner < num_other ? cost - task->falling[other[partner]] : 0;
        best = shift > best.shift ? (Swap){position, partner, shift} : best;
        if (best.shift > 0 && best.shift >= least) {
            break;
        }
    }
    return best;
}

/* Fill the lightest groups from the heaviest, so that each swap leaves one group less to care for. */
static void fill_groups_up(Swapper *swapper) {
    int64_t num_groups = swapper->task->num_groups;
    for (int64_t number = 0; number < 2 * num_groups; number++) {
        rank_groups(swapper);
        int64_t heavy = swapper->ranking[0], light = swapper->ranking[num_groups - 1];
        if (swapper->loads[heavy] <= swapper->task->target) {
            return;
        }
        Swap found = filling_swap(swapper, heavy, light);
        if (found.one < 0) {
            return;
        }
        make_swap(swapper, heavy, light, found);
    }
}

int swap_until_even(const SwapTask *task, int64_t *group_of) {
    Swapper swapper;
    int made = make_swapper(&swapper, task, group_of);
    if (made < 0) {
        return made;
    }
    bool fits = fill_groups(&swapper);
    if (fits && task->slack > 0 && task->limit < 0) {
        fill_groups_up(&swapper);
    }
    for (int64_t number = 0; fits && number < task->max_sweeps; number++) {
        rank_groups(&swapper);
        if (swapper.loads[swapper.ranking[0]] <= task->target || !sweep(&swapper)) {
            break;
        }
    }
    free_swapper(&swapper);
    return fits ? 0 : WRONG_NUMBERS;
}
