"""The straightforward way, for comparison: Karmarkar-Karp with groups of equal size, in pure Python."""

from __future__ import annotations

import heapq


def pure_differencing(costs: list[int], num_groups: int) -> list[list[int]]:
    """Karmarkar-Karp with groups of equal size, as it is usually written: tuples of (sum, members) and a heap."""
    order = sorted(range(len(costs)), key=lambda sample: (-costs[sample], sample))
    heap: list[tuple[int, int, list[tuple[int, list[int]]]]] = []
    for number, begin in enumerate(range(0, len(order), num_groups)):
        row = [(costs[sample], [sample]) for sample in order[begin : begin + num_groups]]
        row += [(0, []) for _ in range(num_groups - len(row))]
        row.reverse()
        heap.append((row[0][0] - row[-1][0], number, row))
    if not heap:
        return [[] for _ in range(num_groups)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        _, _, large = heapq.heappop(heap)
        _, _, small = heapq.heappop(heap)
        merged = [
            (one + other, members + others)
            for (one, members), (other, others) in zip(large, reversed(small), strict=True)
        ]
        merged.sort(key=lambda state: state[0])
        heapq.heappush(heap, (merged[0][0] - merged[-1][0], number, merged))
        number += 1
    return [members for _, members in heap[0][2]]
