/* Groups as they travel, `group_of` each sample: their sums and their members. */

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

void add_up_groups(const int64_t *group_of, const int64_t *numbers, int64_t size, int64_t num_groups, int64_t *sums) {
    memset(sums, 0, (size_t)num_groups * sizeof *sums);
    for (int64_t sample = 0; sample < size; sample++) {
        /* unsigned, so that a sum too large for 64 bits wraps */
        sums[group_of[sample]] = (int64_t)((uint64_t)sums[group_of[sample]] + (uint64_t)numbers[sample]);
    }
}

int list_members(
    const int64_t *group_of, const uint8_t *real, int64_t size, int64_t num_groups, int64_t *members, int64_t *ends) {
    /* where the next real sample of each group goes, and its next padding */
    int64_t *next_real = make_array(num_groups, sizeof *next_real);
    int64_t *next_padding = make_array(num_groups, sizeof *next_padding);
    if (!next_real || !next_padding) {
        free(next_real);
        free(next_padding);
        return NO_MEMORY;
    }
    memset(next_real, 0, (size_t)num_groups * sizeof *next_real);
    memset(ends, 0, (size_t)num_groups * sizeof *ends);
    for (int64_t sample = 0; sample < size; sample++) {
        ends[group_of[sample]]++;
        next_real[group_of[sample]] += real[sample] != 0;
    }
    int64_t begin = 0;
    for (int64_t group = 0; group < num_groups; group++) {
        next_padding[group] = begin + next_real[group];
        next_real[group] = begin;
        begin += ends[group];
        ends[group] = begin;
    }
    for (int64_t sample = 0; sample < size; sample++) {
        int64_t *next = real[sample] ? next_real : next_padding;
        members[next[group_of[sample]]++] = sample;
    }
    free(next_real);
    free(next_padding);
    return 0;
}
