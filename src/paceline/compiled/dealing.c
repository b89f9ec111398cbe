/* Deals from scratch: longest first, and Karmarkar and Karp's differencing with groups of equal size. */

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ longest first */

/* Groups stand in a line, the lightest first. Those before `front` are full. */
typedef struct {
    int64_t *loads, *spare_loads;
    int32_t *groups, *spare_groups, *slots;
    int64_t *counts;
    SortRoom room;
    int64_t num_groups, least, num_wide; /* num_wide groups get one more than `least` */
    int64_t front, wide;                 /* `wide` groups have got their one more */
} Line;

static void free_line(Line *line) {
    free(line->loads);
    free(line->spare_loads);
    free(line->groups);
    free(line->spare_groups);
    free(line->slots);
    free(line->counts);
    free_sort_room(&line->room);
}

static int make_line(Line *line, int64_t size, int64_t num_groups) {
    if (make_sort_room(&line->room, num_groups) < 0) {
        return NO_MEMORY;
    }
    line->loads = make_array(num_groups, sizeof *line->loads);
    line->spare_loads = make_array(num_groups, sizeof *line->spare_loads);
    line->groups = make_array(num_groups, sizeof *line->groups);
    line->spare_groups = make_array(num_groups, sizeof *line->spare_groups);
    line->slots = make_array(num_groups, sizeof *line->slots);
    line->counts = make_array(num_groups, sizeof *line->counts);
    if (!line->loads || !line->spare_loads || !line->groups || !line->spare_groups || !line->slots || !line->counts) {
        free_line(line);
        return NO_MEMORY;
    }
    for (int64_t group = 0; group < num_groups; group++) {
        line->loads[group] = line->counts[group] = 0;
        line->groups[group] = (int32_t)group;
    }
    line->num_groups = num_groups;
    line->least = size / num_groups;
    line->num_wide = size - line->least * num_groups;
    line->front = line->wide = 0;
    return 0;
}

static bool is_full(const Line *line, int64_t group) {
    int64_t count = line->counts[group];
    return count > line->least || (count == line->least && line->wide == line->num_wide);
}

/* Sort the groups from the front up to `end`, and merge them back into the line, behind others of the same load. */
static void merge_back(Line *line, int64_t end) {
    int64_t taken = end - line->front, index = 0, position = line->front, rest = end;
    memcpy(line->spare_loads, line->loads + line->front, (size_t)taken * sizeof *line->loads);
    sort_rising(line->spare_loads, line->slots, taken, &line->room);
    for (int64_t slot = 0; slot < taken; slot++) {
        line->spare_groups[slot] = line->groups[line->front + line->slots[slot]];
    }
    while (index < taken) {
        if (rest < line->num_groups && line->loads[rest] <= line->spare_loads[index]) {
            line->loads[position] = line->loads[rest];
            line->groups[position++] = line->groups[rest++];
        } else {
            line->loads[position] = line->spare_loads[index];
            line->groups[position++] = line->spare_groups[index++];
        }
    }
}

/* Samples that cost nothing go to the groups with the fewest samples. */
static void deal_free_samples(Line *line, const int64_t *order, int64_t item, int64_t size, int64_t *group_of) {
    for (int64_t level = 0; item < size; level++) {
        for (int64_t group = 0; group < line->num_groups && item < size; group++) {
            if (line->counts[group] != level || is_full(line, group)) {
                continue;
            }
            group_of[order[item++]] = group;
            line->counts[group]++;
            line->wide += level == line->least;
        }
    }
}

/* Give each sample in turn to the lightest group with room.
 *
 * A batch takes groups from the front of the line as long as the next one is not heavier than any group that the batch
 * has added to; then the batch is sorted and merged back.
 */
int deal_longest_first(
    const int64_t *falling, const int64_t *order, int64_t size, int64_t num_groups, int64_t *group_of) {
    Line line;
    if (make_line(&line, size, num_groups) < 0) {
        return NO_MEMORY;
    }
    int64_t item = 0;
    while (item < size && falling[item] > 0) {
        int64_t end = line.front, lightest = INT64_MAX;
        while (item < size && end < num_groups && line.loads[end] <= lightest && falling[item] > 0) {
            int32_t group = line.groups[end];
            if (is_full(&line, group)) {
                if (end > line.front) { /* it is skipped when the next batch starts with it */
                    break;
                }
                line.front++;
                end++;
                continue;
            }
            group_of[order[item]] = group;
            line.counts[group]++;
            line.wide += line.counts[group] > line.least;
            line.loads[end] += falling[item];
            lightest = line.loads[end] < lightest ? line.loads[end] : lightest;
            end++;
            item++;
        }
        if (end > line.front) {
            merge_back(&line, end);
        }
    }
    deal_free_samples(&line, order, item, size, group_of);
    free_line(&line);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- differencing */

/* States to be merged, the one of largest spread first, equal ones in the order in which they were made. */
typedef struct {
    int64_t *states;
    const int64_t *spreads, *made; /* of each state */
    int64_t size;
} Heap;

static bool comes_before(const Heap *heap, int64_t one, int64_t other) {
    return heap->spreads[one] > heap->spreads[other]
        || (heap->spreads[one] == heap->spreads[other] && heap->made[one] < heap->made[other]);
}

static void push(Heap *heap, int64_t state) {
    int64_t position = heap->size++;
    while (position > 0 && comes_before(heap, state, heap->states[(position - 1) / 2])) {
        heap->states[position] = heap->states[(position - 1) / 2];
        position = (position - 1) / 2;
    }
    heap->states[position] = state;
}

static int64_t pop(Heap *heap) {
    int64_t first = heap->states[0], size = --heap->size, last = heap->states[size], position = 0;
    while (2 * position + 1 < size) {
        int64_t child = 2 * position + 1;
        if (child + 1 < size && comes_before(heap, heap->states[child + 1], heap->states[child])) {
            child++;
        }
        if (!comes_before(heap, heap->states[child], last)) {
            break;
        }
        heap->states[position] = heap->states[child];
        position = child;
    }
    heap->states[position] = last;
    return first;
}

/* Each state has a sum for each group, rising. At first they are the sorted samples, one row after the other; the state
 * that two are merged into takes the row of the first, and groups take the place of sums: fresh memory costs much time. */
typedef struct {
    int64_t num_rows, num_merges, num_groups;
    int64_t *sums, *spreads, *made, *first, *second, *heap; /* sums, spreads and when it was made: of each row's state */
    int32_t *positions; /* of each merge: where each sum stood in the first of the two */
    int32_t *groups, *merged; /* of each row's state; `groups` lie where the sums were */
    SortRoom room;
} Merges;

static void free_merges(Merges *merges) {
    free(merges->sums);
    free(merges->spreads);
    free(merges->made);
    free(merges->first);
    free(merges->second);
    free(merges->heap);
    free(merges->positions);
    free(merges->merged);
    free_sort_room(&merges->room);
}

static int make_merges(Merges *merges, int64_t size, int64_t num_groups) {
    int64_t num_rows = size / num_groups + (size % num_groups != 0), num_merges = num_rows - 1;
    if (num_rows > INT64_MAX / num_groups || make_sort_room(&merges->room, num_groups) < 0) {
        return NO_MEMORY;
    }
    merges->num_rows = num_rows;
    merges->num_merges = num_merges;
    merges->num_groups = num_groups;
    merges->sums = make_array(num_rows * num_groups, sizeof *merges->sums);
    merges->spreads = make_array(num_rows, sizeof *merges->spreads);
    merges->made = make_array(num_rows, sizeof *merges->made);
    merges->first = make_array(num_merges, sizeof *merges->first);
    merges->second = make_array(num_merges, sizeof *merges->second);
    merges->heap = make_array(num_rows + 1, sizeof *merges->heap);
    merges->positions = make_array(num_merges * num_groups, sizeof *merges->positions);
    merges->merged = make_array(num_groups, sizeof *merges->merged);
    if (merges->sums && merges->spreads && merges->made && merges->first && merges->second && merges->heap
        && merges->positions && merges->merged) {
        return 0;
    }
    free_merges(merges);
    return NO_MEMORY;
}

static void fill_rows(Merges *merges, const int64_t *falling, int64_t size) {
    int64_t num_groups = merges->num_groups;
    for (int64_t row = 0; row < merges->num_rows; row++) {
        int64_t *sums = merges->sums + row * num_groups;
        for (int64_t slot = 0; slot < num_groups; slot++) {
            int64_t item = row * num_groups + slot;
            sums[num_groups - 1 - slot] = item < size ? falling[item] : 0;
        }
        merges->spreads[row] = sums[num_groups - 1] - sums[0];
    }
}

/* Merge the two states of largest spread, large sums with small ones, until one is left. */
static void merge_all(Merges *merges) {
    int64_t num_groups = merges->num_groups;
    Heap heap = {merges->heap, merges->spreads, merges->made, 0};
    for (int64_t row = 0; row < merges->num_rows; row++) {
        merges->made[row] = row;
        push(&heap, row);
    }
    for (int64_t merge = 0; merge < merges->num_merges; merge++) {
        int64_t large = pop(&heap), small = pop(&heap);
        int64_t *sums = merges->sums + large * num_groups;
        const int64_t *of_small = merges->sums + small * num_groups;
        for (int64_t slot = 0; slot < num_groups; slot++) {
            sums[slot] += of_small[num_groups - 1 - slot];
        }
        sort_rising(sums, merges->positions + merge * num_groups, num_groups, &merges->room);
        merges->first[merge] = large;
        merges->second[merge] = small;
        merges->spreads[large] = sums[num_groups - 1] - sums[0];
        merges->made[large] = merges->num_rows + merge;
        push(&heap, large);
    }
}

/* Undo the merges from the last: each state passes the groups of its sums on to the two that it was merged from. */
static void pass_groups_on(Merges *merges) {
    merges->groups = (int32_t *)(void *)merges->sums;
    int64_t num_groups = merges->num_groups, last = merges->num_merges ? merges->first[merges->num_merges - 1] : 0;
    for (int64_t slot = 0; slot < num_groups; slot++) {
        merges->groups[last * num_groups + slot] = (int32_t)slot;
    }
    for (int64_t merge = merges->num_merges - 1; merge >= 0; merge--) {
        const int32_t *positions = merges->positions + merge * num_groups;
        int32_t *of_first = merges->groups + merges->first[merge] * num_groups;
        int32_t *of_second = merges->groups + merges->second[merge] * num_groups;
        memcpy(merges->merged, of_first, (size_t)num_groups * sizeof *of_first);
        for (int64_t slot = 0; slot < num_groups; slot++) {
            of_first[positions[slot]] = merges->merged[slot];
            of_second[num_groups - 1 - positions[slot]] = merges->merged[slot];
        }
    }
}

int deal_by_differencing(
    const int64_t *falling, const int64_t *order, int64_t size, int64_t num_groups, int64_t *group_of) {
    Merges merges;
    if (num_groups == 1 || size == 0) {
        memset(group_of, 0, (size_t)size * sizeof *group_of);
        return 0;
    }
    if (make_merges(&merges, size, num_groups) < 0) {
        return NO_MEMORY;
    }
    fill_rows(&merges, falling, size);
    merge_all(&merges);
    pass_groups_on(&merges);
    for (int64_t begin = 0; begin < size; begin += num_groups) { /* row by row: a division for each sample takes long */
        int64_t width = size - begin < num_groups ? size - begin : num_groups;
        const int32_t *groups = merges.groups + begin;
        for (int64_t slot = 0; slot < width; slot++) {
            group_of[order[begin + slot]] = groups[num_groups - 1 - slot];
        }
    }
    free_merges(&merges);
    return 0;
}
