/* Spreads pieces over packs of limited room, so that all packs cost about the same. */

#include "kernels.h"

#include <stdlib.h>

/* Packs that may take more, the next one to take first: a heap. Pieces that cost something go to the lightest pack;
 * those that cost nothing have nothing to weigh, and go to the pack with the fewest pieces. */
typedef struct {
    int64_t *loads, *counts, *rooms; /* of each pack */
    int64_t *packs, size;
    int64_t *passed, num_passed; /* packs that have no room for the piece at hand */
    bool by_count;
} Line;

static void free_line(Line *line) {
    free(line->loads);
    free(line->counts);
    free(line->rooms);
    free(line->packs);
    free(line->passed);
}

static int make_line(Line *line, int64_t num_packs) {
    line->loads = make_array(num_packs, sizeof *line->loads);
    line->counts = make_array(num_packs, sizeof *line->counts);
    line->rooms = make_array(num_packs, sizeof *line->rooms);
    line->packs = make_array(num_packs, sizeof *line->packs);
    line->passed = make_array(num_packs, sizeof *line->passed);
    if (line->loads && line->counts && line->rooms && line->packs && line->passed) {
        line->size = line->num_passed = 0;
        line->by_count = false;
        return 0;
    }
    free_line(line);
    return NO_MEMORY;
}

static bool comes_before(const Line *line, int64_t one, int64_t other) {
    const int64_t *first = line->by_count ? line->counts : line->loads;
    const int64_t *second = line->by_count ? line->loads : line->counts;
    if (first[one] != first[other]) {
        return first[one] < first[other];
    }
    return second[one] != second[other] ? second[one] < second[other] : one < other;
}

static void add_pack(Line *line, int64_t pack) {
    int64_t position = line->size++;
    while (position > 0 && comes_before(line, pack, line->packs[(position - 1) / 2])) {
        line->packs[position] = line->packs[(position - 1) / 2];
        position = (position - 1) / 2;
    }
    line->packs[position] = pack;
}

static int64_t next_pack(Line *line) {
    int64_t first = line->packs[0], last = line->packs[--line->size], position = 0;
    for (int64_t child = 1; child < line->size; child = 2 * position + 1) {
        child += child + 1 < line->size && comes_before(line, line->packs[child + 1], line->packs[child]);
        if (!comes_before(line, line->packs[child], last)) {
            break;
        }
        line->packs[position] = line->packs[child];
        position = child;
    }
    line->packs[position] = last;
    return first;
}

/* Put the packs into the order of their counts. */
static void sort_by_count(Line *line) {
    int64_t size = line->size;
    line->by_count = true;
    line->size = 0;
    for (int64_t index = 0; index < size; index++) {
        add_pack(line, line->packs[index]); /* it is put before or at the place that it is read from */
    }
}

/* Return the first pack in line that has room, or -1. */
static int64_t pack_with_room(Line *line, int64_t length) {
    int64_t found = -1;
    line->num_passed = 0;
    while (line->size > 0 && found < 0) {
        int64_t pack = next_pack(line);
        if (line->rooms[pack] >= length) {
            found = pack;
        } else {
            line->passed[line->num_passed++] = pack;
        }
    }
    return found;
}

int spread_pieces(const SpreadTask *task, int64_t *pack_of) {
    Line line;
    if (make_line(&line, task->num_packs) < 0) {
        return NO_MEMORY;
    }
    int64_t shortest = task->size ? task->lengths[0] : 0;
    for (int64_t piece = 0; piece < task->size; piece++) {
        shortest = task->lengths[piece] < shortest ? task->lengths[piece] : shortest;
    }
    for (int64_t pack = 0; pack < task->num_packs; pack++) {
        line.loads[pack] = line.counts[pack] = 0;
        line.rooms[pack] = task->room;
        add_pack(&line, pack);
    }
    int result = 0;
    for (int64_t index = 0; index < task->size && result == 0; index++) {
        int64_t piece = task->order[index], length = task->lengths[piece];
        if (task->costs[piece] == 0 && !line.by_count) {
            sort_by_count(&line);
        }
        int64_t pack = pack_with_room(&line, length);
        if (pack < 0) {
            result = NO_ROOM;
            break;
        }
        pack_of[piece] = pack;
        line.loads[pack] += task->costs[piece];
        line.rooms[pack] -= length;
        if (++line.counts[pack] < task->most && line.rooms[pack] >= shortest) {
            add_pack(&line, pack);
        }
        while (line.num_passed > 0) {
            add_pack(&line, line.passed[--line.num_passed]);
        }
    }
    free_line(&line);
    return result;
}
