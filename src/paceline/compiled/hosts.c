/* Evens out groups that live on hosts. Samples cross from host to host only for what a host cannot even out by itself.
 *
 * First hosts are brought to the same load for each of their groups, by swaps of a heavy sample of one host with the
 * lightest of another; then each host swaps between its own groups. */

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

enum {
    COARSE = 8, /* in the first pass, a host whose room is less than this part of an excess is left for later */
    WORTHWHILE = 4, /* a sample that shifts less than this part of what could be shifted is not looked for */
    MOST_PASSES = 4,
    SCALED_BITS = 31, /* costs and bytes are compared by products, which must fit into 64 bits */
    AHEAD = 24, /* samples are looked up in the order of their costs, all over the memory: asked for this far ahead */
};

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)(address))
#endif

/* A sample on a host: what it costs, which it is, and in which of the host's groups. Together, for time goes by reads. */
typedef struct {
    int64_t cost;
    uint32_t sample, group;
} Member;

typedef struct {
    uint32_t host, group; /* the host of a group, and its number there */
} GroupPlace;

/* All hosts. Swaps keep the number of each host's members. */
typedef struct {
    const HostTask *task;
    int64_t *num_real, *group_loads; /* of each group */
    int64_t *num_groups, *groups, *group_starts; /* the groups of each host */
    GroupPlace *places;                          /* of each group */
    int64_t *starts; /* where the members of each host begin; one more at the end */
    Member *members; /* host after host, costs rising */
    int64_t *loads, *capacities;
    int64_t *ranked;
    int32_t *ranking; /* hosts, those with the largest excess for each group first */
    SortRoom room;
    int cost_shift, byte_shift; /* by which costs and bytes are scaled down */
} Hosts;

/* A sample of the host that gives, to be swapped with the lightest of the host that takes. */
typedef struct {
    int64_t position, shift, bytes; /* position is -1 where there is none */
} Crossing;

static void free_hosts(Hosts *hosts) {
    free(hosts->num_real);
    free(hosts->group_loads);
    free(hosts->num_groups);
    free(hosts->groups);
    free(hosts->group_starts);
    free(hosts->places);
    free(hosts->starts);
    free(hosts->members);
    free(hosts->loads);
    free(hosts->capacities);
    free(hosts->ranked);
    free(hosts->ranking);
    free_sort_room(&hosts->room);
}

static int make_hosts(Hosts *hosts, const HostTask *task) {
    int64_t num_hosts = task->num_hosts, num_groups = task->num_groups;
    if (make_sort_room(&hosts->room, num_hosts) < 0) {
        return NO_MEMORY;
    }
    hosts->task = task;
    hosts->num_real = make_array(num_groups, sizeof *hosts->num_real);
    hosts->group_loads = make_array(num_groups, sizeof *hosts->group_loads);
    hosts->num_groups = make_array(num_hosts, sizeof *hosts->num_groups);
    hosts->groups = make_array(num_groups, sizeof *hosts->groups);
    hosts->group_starts = make_array(num_hosts + 1, sizeof *hosts->group_starts);
    hosts->places = make_array(num_groups, sizeof *hosts->places);
    hosts->starts = make_array(num_hosts + 1, sizeof *hosts->starts);
    hosts->members = make_array(task->size, sizeof *hosts->members);
    hosts->loads = make_array(num_hosts, sizeof *hosts->loads);
    hosts->capacities = make_array(num_hosts, sizeof *hosts->capacities);
    hosts->ranked = make_array(num_hosts, sizeof *hosts->ranked);
    hosts->ranking = make_array(num_hosts, sizeof *hosts->ranking);
    if (hosts->num_real && hosts->group_loads && hosts->num_groups && hosts->groups && hosts->group_starts
        && hosts->places && hosts->starts && hosts->members && hosts->loads && hosts->capacities && hosts->ranked
        && hosts->ranking) {
        return 0;
    }
    free_hosts(hosts);
    return NO_MEMORY;
}

static int64_t size_of(const Hosts *hosts, int64_t host) {
    return hosts->starts[host + 1] - hosts->starts[host];
}

static int excess_bits(int64_t largest) { /* by how many bits a number is too wide for a product */
    int bits = 0;
    while (bits < 63 && largest >> bits >> SCALED_BITS) {
        bits++;
    }
    return bits;
}

static void list_groups(Hosts *hosts) {
    const HostTask *task = hosts->task;
    memset(hosts->num_groups, 0, (size_t)task->num_hosts * sizeof *hosts->num_groups);
    for (int64_t group = 0; group < task->num_groups; group++) {
        int64_t host = task->host_of[group];
        hosts->places[group] = (GroupPlace){(uint32_t)host, (uint32_t)hosts->num_groups[host]++};
    }
    hosts->group_starts[0] = 0;
    for (int64_t host = 0; host < task->num_hosts; host++) {
        hosts->group_starts[host + 1] = hosts->group_starts[host] + hosts->num_groups[host];
        int64_t most = INT64_MAX / 2 / (hosts->num_groups[host] ? hosts->num_groups[host] : 1);
        int64_t level = task->host_target < most ? task->host_target : most;
        hosts->capacities[host] = level * hosts->num_groups[host];
    }
    for (int64_t group = 0; group < task->num_groups; group++) {
        hosts->groups[hosts->group_starts[hosts->places[group].host] + hosts->places[group].group] = group;
    }
}

static void count_samples(Hosts *hosts, const int64_t *group_of) {
    const HostTask *task = hosts->task;
    int64_t largest = 0;
    memset(hosts->num_real, 0, (size_t)task->num_groups * sizeof *hosts->num_real);
    memset(hosts->group_loads, 0, (size_t)task->num_groups * sizeof *hosts->group_loads);
    memset(hosts->loads, 0, (size_t)task->num_hosts * sizeof *hosts->loads);
    memset(hosts->starts, 0, (size_t)(task->num_hosts + 1) * sizeof *hosts->starts);
    for (int64_t sample = 0; sample < task->size; sample++) {
        int64_t group = group_of[sample];
        hosts->starts[hosts->places[group].host + 1]++;
        hosts->num_real[group] += task->real[sample] != 0;
        hosts->group_loads[group] += task->costs[sample];
        largest = task->bytes[sample] > largest ? task->bytes[sample] : largest;
    }
    for (int64_t group = 0; group < task->num_groups; group++) {
        hosts->loads[hosts->places[group].host] += hosts->group_loads[group];
    }
    for (int64_t host = 0; host < task->num_hosts; host++) {
        hosts->starts[host + 1] += hosts->starts[host];
    }
    hosts->byte_shift = excess_bits(largest) + 1; /* two of them are added up */
    hosts->cost_shift = excess_bits(task->size ? task->falling[0] : 0);
}

/* Returns false if the order does not have each sample once: a host would get more members than it has room for. */
static bool list_samples(Hosts *hosts, const int64_t *group_of) {
    const HostTask *task = hosts->task;
    int64_t *next = hosts->ranked;
    memcpy(next, hosts->starts, (size_t)task->num_hosts * sizeof *next);
    for (int64_t item = task->size - 1; item >= 0; item--) { /* the lightest first */
        int64_t sample = task->order[item];
        FETCH(&group_of[task->order[item > AHEAD ? item - AHEAD : 0]]);
        GroupPlace place = hosts->places[group_of[sample]];
        if (next[place.host] == hosts->starts[place.host + 1]) {
            return false;
        }
        hosts->members[next[place.host]++] = (Member){task->falling[item], (uint32_t)sample, place.group};
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ between hosts */

static int64_t excess_of(const Hosts *hosts, int64_t host) {
    return hosts->loads[host] - hosts->capacities[host];
}

/* Rank by the excess for each group. The quotient is rounded up, so that those with any excess come before all others. */
static void rank_hosts(Hosts *hosts) {
    for (int64_t host = 0; host < hosts->task->num_hosts; host++) {
        int64_t excess = excess_of(hosts, host), num = hosts->num_groups[host];
        int64_t each = num == 0 ? 0 : excess > 0 ? (excess + num - 1) / num : excess / num;
        hosts->ranked[host] = -each;
    }
    sort_rising(hosts->ranked, hosts->ranking, hosts->task->num_hosts, &hosts->room);
}

static int64_t group_at(const Hosts *hosts, int64_t host, Member member) {
    return hosts->groups[hosts->group_starts[host] + member.group];
}

static bool has_bytes(const HostTask *task, int64_t host, int64_t out, int64_t in) {
    return task->limit < 0 || (task->sent[host] <= task->limit - out && task->received[host] <= task->limit - in);
}

/* Whether a host can give one of its members for another: within its bytes, and no group loses its last real sample. */
static bool can_give(const Hosts *hosts, int64_t host, Member given, Member taken) {
    const HostTask *task = hosts->task;
    return has_bytes(task, host, task->bytes[given.sample], task->bytes[taken.sample])
        && (task->real[taken.sample] || hosts->num_real[group_at(hosts, host, given)] > 1);
}

/* Whether one crossing takes fewer bytes than another for the same shift; of equal ones the larger shift is better. */
static bool is_denser(const Hosts *hosts, Crossing one, Crossing other) {
    int64_t left = (one.shift >> hosts->cost_shift) * (other.bytes >> hosts->byte_shift);
    int64_t right = (other.shift >> hosts->cost_shift) * (one.bytes >> hosts->byte_shift);
    return left > right || (left == right && one.shift > other.shift);
}

/* Find the sample of the heavy host that best crosses for the lightest of the light one.
 *
 * Either one sample takes all of the excess away: then the one of fewest bytes. Or it takes a part: then the one that
 * shifts most for its bytes. The first is chosen unless the second, repeated, would take fewer bytes. Samples that shift
 * much less than could be shifted are looked at only where there is no other: they would have to be many.
 */
static Crossing best_crossing(const Hosts *hosts, int64_t heavy, int64_t light) {
    const HostTask *task = hosts->task;
    const Member *members = hosts->members + hosts->starts[heavy], taken = hosts->members[hosts->starts[light]];
    int64_t back = task->bytes[taken.sample] + 2; /* 2: no bytes at all would make all products equal */
    int64_t excess = excess_of(hosts, heavy), space = -excess_of(hosts, light), position = size_of(hosts, heavy) - 1;
    int64_t most = members[position].cost - taken.cost; /* that can be shifted at once */
    most = most < excess ? most : excess;
    most = most < space ? most : space;
    Crossing whole = {-1, 0, INT64_MAX}, part = {-1, 0, 1};
    for (; position >= 0 && members[position].cost > taken.cost; position--) {
        int64_t shift = members[position].cost - taken.cost;
        if (shift < most / WORTHWHILE && (whole.position >= 0 || part.position >= 0)) {
            break;
        }
        Crossing found = {position, shift, task->bytes[members[position].sample] + back};
        bool takes_all = shift >= excess;
        if (shift > space || (takes_all ? found.bytes > whole.bytes : !is_denser(hosts, found, part))) {
            continue;
        }
        if (can_give(hosts, heavy, members[position], taken) && has_bytes(task, light, back - 2, found.bytes - back)) {
            *(takes_all ? &whole : &part) = found;
        }
    }
    Crossing enough = {whole.position, excess, whole.bytes};
    return whole.position >= 0 && (part.position < 0 || !is_denser(hosts, part, enough)) ? whole : part;
}

/* Whether nothing of a heavy host can cross for the lightest of the light one, whatever room that one has. */
static bool is_stuck(const Hosts *hosts, int64_t heavy, int64_t light) {
    Member taken = hosts->members[hosts->starts[light]];
    for (int64_t index = hosts->starts[heavy + 1] - 1; index >= hosts->starts[heavy]; index--) {
        if (hosts->members[index].cost > taken.cost && can_give(hosts, heavy, hosts->members[index], taken)) {
            return false;
        }
    }
    return true;
}

/* Take a member out of a sorted host and put another into it. */
static void replace_member(Hosts *hosts, int64_t host, int64_t position, Member member) {
    Member *members = hosts->members + hosts->starts[host];
    int64_t low = 0, high = size_of(hosts, host); /* those before `low` are lighter, those from `high` on are not */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (members[middle].cost < member.cost) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > position) { /* all between move down by one, and the place before `low` is free */
        low--;
        memmove(members + position, members + position + 1, (size_t)(low - position) * sizeof *members);
    } else {
        memmove(members + low + 1, members + low, (size_t)(position - low) * sizeof *members);
    }
    members[low] = member;
}

static void cross(Hosts *hosts, int64_t heavy, int64_t light, Crossing crossing) {
    const HostTask *task = hosts->task;
    Member given = hosts->members[hosts->starts[heavy] + crossing.position];
    Member taken = hosts->members[hosts->starts[light]];
    int64_t group = group_at(hosts, heavy, given), other_group = group_at(hosts, light, taken);
    int64_t more_real = (task->real[given.sample] != 0) - (task->real[taken.sample] != 0);
    int64_t out = task->bytes[given.sample], back = task->bytes[taken.sample];
    Member coming = {taken.cost, taken.sample, given.group}, leaving = {given.cost, given.sample, taken.group};
    replace_member(hosts, heavy, crossing.position, coming);
    replace_member(hosts, light, 0, leaving);
    hosts->num_real[group] -= more_real;
    hosts->num_real[other_group] += more_real;
    hosts->group_loads[group] -= crossing.shift;
    hosts->group_loads[other_group] += crossing.shift;
    hosts->loads[heavy] -= crossing.shift;
    hosts->loads[light] += crossing.shift;
    task->sent[heavy] += out;
    task->received[light] += out;
    task->sent[light] += back;
    task->received[heavy] += back;
}

/* Go through the hosts that are too heavy, the heaviest first, and let samples cross to the lightest hosts. Returns
 * whether any did. A host that cannot take what is offered is passed over for good: the next pass ranks hosts anew. */
static bool pass_over_hosts(Hosts *hosts, bool is_coarse) {
    int64_t last = hosts->task->num_hosts - 1, num_left = 0;
    bool helped = false;
    rank_hosts(hosts);
    for (int64_t first = 0, begun = -1; first < last;) {
        int64_t heavy = hosts->ranking[first], light = hosts->ranking[last];
        int64_t excess = excess_of(hosts, heavy), space = -excess_of(hosts, light);
        if (begun != heavy) {
            begun = heavy;
            num_left = size_of(hosts, heavy); /* more swaps than samples are not worth their bytes */
        }
        if (excess <= 0 || num_left == 0) {
            first++;
            continue;
        }
        if (space <= 0 || size_of(hosts, light) == 0 || (is_coarse && space < excess / COARSE)) {
            last--;
            continue;
        }
        Crossing crossing = best_crossing(hosts, heavy, light);
        if (crossing.position >= 0) {
            cross(hosts, heavy, light, crossing);
            helped = true;
            num_left--;
        } else if (is_stuck(hosts, heavy, light)) {
            first++;
        } else {
            last--;
        }
    }
    return helped;
}

/* -------------------------------------------------------------------------------------------------- inside a host */

/* What one host needs for its swaps, large enough for any. */
typedef struct {
    int64_t *falling, *order, *group_of;
} HostRoom;

static void free_host_room(HostRoom *room) {
    free(room->falling);
    free(room->order);
    free(room->group_of);
}

static int make_host_room(HostRoom *room, const Hosts *hosts) {
    int64_t most = 0;
    for (int64_t host = 0; host < hosts->task->num_hosts; host++) {
        most = size_of(hosts, host) > most ? size_of(hosts, host) : most;
    }
    room->falling = make_array(most, sizeof *room->falling);
    room->order = make_array(most, sizeof *room->order);
    room->group_of = make_array(most, sizeof *room->group_of);
    if (!room->falling || !room->order || !room->group_of) {
        free_host_room(room);
        return NO_MEMORY;
    }
    return 0;
}

static bool is_light_enough(const Hosts *hosts, int64_t host, int64_t target) {
    for (int64_t index = hosts->group_starts[host]; index < hosts->group_starts[host + 1]; index++) {
        if (hosts->group_loads[hosts->groups[index]] > target) {
            return false;
        }
    }
    return true;
}

static int swap_inside(Hosts *hosts, int64_t host, int64_t target, HostRoom *room) {
    int64_t size = size_of(hosts, host);
    Member *members = hosts->members + hosts->starts[host];
    for (int64_t item = 0; item < size; item++) {
        room->falling[item] = members[size - 1 - item].cost;
        room->order[item] = item;
        room->group_of[item] = members[size - 1 - item].group;
    }
    SwapTask swaps = {
        .falling = room->falling, .order = room->order, .size = size, .num_groups = hosts->num_groups[host],
        .target = target, .slack = hosts->task->target - hosts->task->host_target, .limit = -1,
        .max_sweeps = hosts->task->max_sweeps};
    int result = swap_until_even(&swaps, room->group_of);
    for (int64_t item = 0; item < size && result == 0; item++) {
        members[size - 1 - item].group = (uint32_t)room->group_of[item];
    }
    return result;
}

/* Even out each host. Where one must stay heavier than the target, the others need not be lighter than that one. */
static int swap_inside_hosts(Hosts *hosts) {
    const HostTask *task = hosts->task;
    int64_t target = task->target, slack = task->target - task->host_target;
    HostRoom room;
    if (make_host_room(&room, hosts) < 0) {
        return NO_MEMORY;
    }
    for (int64_t host = 0; host < task->num_hosts; host++) {
        int64_t num = hosts->num_groups[host];
        if (num > 0 && excess_of(hosts, host) > 0) {
            int64_t each = hosts->loads[host] / num + 1;
            target = each + slack > target ? each + slack : target;
        }
    }
    int result = 0;
    for (int64_t host = 0; host < task->num_hosts && result == 0; host++) {
        if (!is_light_enough(hosts, host, target)) {
            result = swap_inside(hosts, host, target, &room);
        }
    }
    free_host_room(&room);
    return result;
}

static void write_groups(const Hosts *hosts, int64_t *group_of) {
    for (int64_t host = 0; host < hosts->task->num_hosts; host++) {
        for (int64_t index = hosts->starts[host]; index < hosts->starts[host + 1]; index++) {
            group_of[hosts->members[index].sample] = group_at(hosts, host, hosts->members[index]);
        }
    }
}

int even_out_hosts(const HostTask *task, int64_t *group_of) {
    Hosts hosts;
    if (make_hosts(&hosts, task) < 0) {
        return NO_MEMORY;
    }
    list_groups(&hosts);
    count_samples(&hosts, group_of);
    int result = WRONG_NUMBERS;
    if (list_samples(&hosts, group_of)) {
        for (int pass = 0; pass < MOST_PASSES && pass_over_hosts(&hosts, pass == 0); pass++) {
        }
        result = swap_inside_hosts(&hosts);
    }
    if (result == 0) {
        write_groups(&hosts, group_of);
    }
    free_hosts(&hosts);
    return result;
}
