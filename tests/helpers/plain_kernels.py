"""What the compiled kernels compute, in plain Python: slow, and written to be read and compared with."""

from __future__ import annotations

from bisect import bisect_right, insort

_STRIDE, _FIRST, _SECOND = 0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB
_MASK = (1 << 64) - 1
_WORD = (1 << 32) - 1
_NUM_ROUNDS = 6


def heaviest_first(costs: list[int]) -> list[int]:
    """Indices from the largest to the smallest number; equal ones in their order."""
    return sorted(range(len(costs)), key=lambda index: -costs[index])


def sums_of(group_of: list[int], numbers: list[int], num_groups: int) -> list[int]:
    return [sum(numbers[i] for i in range(len(numbers)) if group_of[i] == group) for group in range(num_groups)]


def members_of(group_of: list[int], real: list[bool], num_groups: int) -> list[list[int]]:
    """The samples of each group, the real ones first."""
    groups = [[sample for sample, at in enumerate(group_of) if at == group] for group in range(num_groups)]
    return [sorted(group, key=lambda sample: not real[sample]) for group in groups]


def deal_longest_first(falling: list[int], order: list[int], num_groups: int) -> list[int]:
    """Each sample goes to the first group in the line, which then moves back behind all that are not heavier."""
    least, num_wide = divmod(len(order), num_groups)
    group_of, counts = [-1] * len(order), [0] * num_groups
    line = [(0, group) for group in range(num_groups)]

    def has_room(group: int) -> bool:
        num_used = sum(count > least for count in counts)
        return counts[group] < least or (counts[group] == least and num_used < num_wide)

    for cost, sample in zip(falling, order, strict=True):
        if cost > 0:
            while not has_room(line[0][1]):
                line.pop(0)
            load, group = line.pop(0)
            line.insert(bisect_right(line, load + cost, key=lambda entry: entry[0]), (load + cost, group))
        else:
            group = min(range(num_groups), key=lambda group: counts[group])
        group_of[sample] = group
        counts[group] += 1
    return group_of


def deal_by_differencing(falling: list[int], order: list[int], num_groups: int) -> list[int]:
    """Rows of one sample per group are merged, those of largest spread first, large sums with small ones."""
    rows = []  # each a list of (sum, samples), rising
    for begin in range(0, len(order), num_groups):
        row = [(cost, [sample]) for cost, sample in zip(falling, order, strict=True)][begin : begin + num_groups]
        row += [(0, [])] * (num_groups - len(row))
        rows.append(row[::-1])
    states = list(enumerate(rows))
    num_states = len(rows)
    while len(states) > 1:
        states.sort(key=lambda state: (state[1][0][0] - state[1][-1][0], state[0]))
        (_, large), (_, small), *states = states
        merged = [
            (one + other, samples + others) for (one, samples), (other, others) in zip(large, small[::-1], strict=True)
        ]
        states.append((num_states, sorted(merged, key=lambda entry: entry[0])))
        num_states += 1
    group_of = [0] * len(order)
    for _, state in states:
        for group, (_, samples) in enumerate(state):
            for sample in samples:
                group_of[sample] = group
    return group_of


class Refiner:
    """Swaps samples between groups until none is heavier than the target, or nothing helps."""

    def __init__(
        self, falling: list[int], order: list[int], group_of: list[int], num_groups: int, target: int,
        memory: list[int], limit: int,
    ) -> None:  # fmt: skip
        self.cost_of = dict(zip(order, falling, strict=True))
        self.group_of, self.target, self.memory, self.limit = list(group_of), target, memory, limit
        self.groups: list[list[int]] = [[] for _ in range(num_groups)]  # samples, costs rising
        for sample in reversed(order):
            self.groups[group_of[sample]].append(sample)

    def load(self, group: int) -> int:
        return sum(self.cost_of[sample] for sample in self.groups[group])

    def room(self, group: int) -> int:
        """What is left of the group's memory."""
        return self.limit - sum(self.memory[sample] for sample in self.groups[group]) if self.limit >= 0 else -1

    def run(self, max_sweeps: int) -> list[int]:
        num_groups = len(self.groups)
        for _ in range(max_sweeps):
            ranking = heaviest_first([self.load(group) for group in range(num_groups)])
            if self.load(ranking[0]) <= self.target:
                break
            helped = False
            for heavy, light in zip(ranking[: num_groups // 2], ranking[::-1], strict=False):
                if self.load(heavy) <= self.target:
                    break
                helped |= self.swap(heavy, light)
            if not helped and not any(self.swap(ranking[0], light) for light in ranking[:0:-1]):
                break
        return self.group_of

    def swap(self, heavy: int, light: int) -> bool:
        """Make the best swap between two groups, if one helps."""
        if self.load(heavy) - self.load(light) <= 1:
            return False
        found = self.best_swap(heavy, light)
        if found is None:
            return False
        one, other = found
        self.move(one, heavy, light)
        if other is not None:
            self.move(other, light, heavy)
        return True

    def move(self, sample: int, source: int, target: int) -> None:
        self.groups[source].remove(sample)
        insort(self.groups[target], sample, key=lambda sample: self.cost_of[sample])
        self.group_of[sample] = target

    def best_swap(self, heavy: int, light: int) -> tuple[int, int | None] | None:
        """The pair whose swap comes nearest to half of the gap; or the first that leaves both groups light enough."""
        gap = self.load(heavy) - self.load(light)
        enough, most = self.load(heavy) - self.target, self.target - self.load(light)
        room, other_room = self.room(heavy), self.room(light)
        best: tuple[int, int | None] | None = None
        distance = gap + 1  # how far a shift is from half of the gap, doubled

        def improves(shift: int) -> bool:
            return 0 < shift < gap and (best is None or abs(gap - 2 * shift) < distance)

        if len(self.groups[heavy]) > len(self.groups[light]):
            for one in self.groups[heavy]:
                shift = self.cost_of[one]
                if improves(shift) and (room < 0 or self.memory[one] <= other_room):
                    best, distance = (one, None), abs(gap - 2 * shift)
        for one in self.groups[heavy]:
            shifts = [self.cost_of[one] - self.cost_of[other] for other in self.groups[light]]  # falling
            first = sum(2 * shift > gap for shift in shifts)
            for candidate in (first - 1, first):
                if not 0 <= candidate < len(shifts) or not improves(shifts[candidate]):
                    continue
                other = self.groups[light][candidate]
                if room >= 0:
                    more = self.memory[one] - self.memory[other]
                    if more > other_room or -more > room:
                        continue
                best, distance = (one, other), abs(gap - 2 * shifts[candidate])
                if enough <= shifts[candidate] <= most:
                    return best
        return best


def random_word(key: int, counter: int) -> int:
    """One word of SplitMix64."""
    state = (counter * _STRIDE + key) & _MASK
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return (state ^ (state >> 31)) >> 32


def fisher_yates(size: int, key: int) -> list[int]:
    """An exact shuffle of range(size). Draws that would favour some numbers are drawn again."""
    table = list(range(size))
    for last in range(size - 1, 0, -1):
        span = counter = last + 1
        while (scaled := random_word(key, counter) * span) % (1 << 32) < (1 << 32) % span:
            counter += 65_536
        partner = scaled >> 32
        table[last], table[partner] = table[partner], table[last]
    return table


def scramble(word: int) -> int:
    word ^= word >> 16
    word = word * 0x7FEB_352D & _WORD
    word ^= word >> 15
    word = word * 0x846C_A68B & _WORD
    return word ^ word >> 16


def feistel(number: int, size: int, key: int, *, backward: bool = False) -> int:
    """Where a number of range(size) goes: through the network, and again while it lands outside."""
    low_bits = ((size - 1).bit_length() + 1) // 2
    num_high = -(-size // (1 << low_bits))
    while True:
        high, low = divmod(number, 1 << low_bits)
        for turn in reversed(range(_NUM_ROUNDS)) if backward else range(_NUM_ROUNDS):
            round_key = random_word(key, turn)
            if turn % 2 == 0:
                low ^= scramble(high ^ round_key) >> (32 - low_bits)
            else:
                shift = scramble(low ^ round_key) * num_high >> 32
                high = (high + (-shift if backward else shift)) % num_high
        number = high << low_bits | low
        if number < size:
            return number


def best_fit(lengths: list[int], room: int) -> tuple[list[int], int]:
    """Each sample goes to the fullest pack with room for it; of equally full ones to the one that was filled last."""
    pack_of: list[int] = []
    packs: list[tuple[int, int, int]] = []  # (room left, minus the turn in which it was filled, pack)
    for turn, length in enumerate(lengths):
        fitting = [entry for entry in packs if entry[0] >= length]
        left, _, pack = min(fitting, default=(room, 0, len(packs)))
        packs = [entry for entry in packs if entry[2] != pack] + [(left - length, -turn, pack)]
        pack_of.append(pack)
    return pack_of, len(packs)
