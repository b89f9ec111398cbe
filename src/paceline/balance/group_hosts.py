"""Where groups live, and what may travel between their hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.balance.costs import Numbers, whole_costs
from paceline.balance.kernels import Flags
from paceline.errors import InputError, whole_number

_MOST_BYTES = 1 << 62
NO_BYTES_LIMIT = -1  # kernels take any negative limit as none
_LARGEST_BYTES = 1 << 50  # of all samples: what hosts send is added up, and some samples may be counted more than once


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHosts:
    """The hosts of groups.

    Attributes:
        host_of: The host of each group, from 0.
        num_hosts: Hosts.
        sample_bytes: What each sample takes when it travels.
        bytes_limit: Bytes that a host may send to other hosts, and receive from them; or `NO_BYTES_LIMIT`.
    """

    host_of: Numbers
    num_hosts: int
    sample_bytes: Numbers
    bytes_limit: int

    def crossed(self, samples: Numbers, sources: Numbers, targets: Numbers) -> tuple[int, int]:
        """Return how many of the samples that went from group to group have changed host, and their bytes."""
        crossed = samples[self.host_of[sources] != self.host_of[targets]]
        return crossed.size, int(self.sample_bytes[crossed].sum())


class HostTraffic:
    """Counts what each host sends and receives while samples are moved, and says what is still within the limit."""

    def __init__(self, hosts: GroupHosts) -> None:
        self._hosts = hosts
        self.sent, self.received = np.zeros((2, hosts.num_hosts), np.int64)

    @property
    def counts(self) -> tuple[Numbers, Numbers]:
        """Bytes that each host has sent, and received."""
        return self.sent, self.received

    def nearest(self, groups: Numbers, group: int) -> Numbers:
        """Return those of some groups that are on the host of one group; all of them if none is."""
        near = groups[self._hosts.host_of[groups] == self._hosts.host_of[group]]
        return near if near.size else groups

    def allowed(self, samples: Numbers, giver: int, taker: int) -> Numbers:
        """Return the samples that may go from one group to another."""
        limit, (source, target) = self._hosts.bytes_limit, self._hosts.host_of[[giver, taker]]
        if source == target or limit == NO_BYTES_LIMIT:
            return samples
        room = limit - max(self.sent[source], self.received[target])
        within: Numbers = samples[self._hosts.sample_bytes[samples] <= room]
        return within

    def note(self, sample: int, giver: int, taker: int) -> None:
        """Count a sample that goes from one group to another."""
        source, target = self._hosts.host_of[[giver, taker]]
        if source != target:
            self.sent[source] += self._hosts.sample_bytes[sample]
            self.received[target] += self._hosts.sample_bytes[sample]


def make_hosts(
    hosts: Any, num_groups: int, placement: Numbers | None, sample_bytes: Any, limit: Any, real: Flags
) -> GroupHosts:  # fmt: skip
    """Check where groups live, and number their hosts.

    >>> make_hosts(["b", "a", "b"], 3, np.array([0, 1, 2]), None, None, np.ones(3, bool)).host_of.tolist()
    [1, 0, 1]
    """
    names = np.asarray(hosts)
    if names.shape != (num_groups,) or names.dtype.kind not in "iuU":
        raise InputError(
            f"hosts must be one number or name per group: {num_groups} of them, got {names.dtype} {names.shape}"
        )
    if placement is None:
        raise InputError("hosts only matter to samples that are somewhere: give a placement")
    sizes = np.bincount(placement, minlength=num_groups)
    if sizes.max() - sizes.min() > 1:
        raise InputError(
            f"with hosts, a placement must have groups of even size, padding included; it has {sizes.min()} to "
            f"{sizes.max()} samples in a group"
        )
    different, host_of = np.unique(names, return_inverse=True)
    return GroupHosts(
        host_of=host_of.astype(np.int64).reshape(-1),
        num_hosts=int(different.size),
        sample_bytes=_checked_bytes(sample_bytes, real),
        bytes_limit=NO_BYTES_LIMIT if limit is None else _checked_limit(limit),
    )


def _checked_limit(limit: Any) -> int:
    """Return a limit that a kernel can count to."""
    return min(whole_number("host_bytes_limit", limit, least=0), _MOST_BYTES)


def _checked_bytes(sample_bytes: Any, real: Flags) -> Numbers:
    if sample_bytes is None:
        return real.astype(np.int64)
    size = real.size
    numbers, _ = whole_costs(sample_bytes, "sample_bytes")
    if numbers.size != size or (np.asarray(sample_bytes).dtype.kind == "f" and size):
        raise InputError(f"sample_bytes must be one whole number per sample, got {numbers.size} for {size} samples")
    if int(numbers.sum()) > _LARGEST_BYTES:
        raise InputError("sample_bytes add up to more than 2**50")
    return numbers if real.all() else np.where(real, numbers, 0)  # padding does not travel
