"""Who costs time: how long each rank waited, how long others waited for it, and at which lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from paceline.guard.shared_memory.operations import BY_CODE, shown_name
from paceline.report.evidence.call_table import NO_RANK, Calls
from paceline.report.evidence.waiting import Waits

_PACKAGE = Path(__file__).parents[2]
OWN_SITE = "inside paceline"  # shown instead of a line of ours
_MOST_SITES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCost:
    """What a rank waited, and what it made others wait."""

    rank: int
    num_calls: int
    seconds_waited: float
    seconds_caused: float  # of others, added up
    num_last: int  # calls that others had to wait for


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCost:
    """What was waited at a site, over all ranks."""

    site: str
    call: str
    num_calls: int
    seconds_waited: float
    longest: float
    mostly_for: int | None  # the rank that most of it was waited for
    mostly_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Where time was waited away."""

    seconds: float  # of the run
    ranks: tuple[RankCost, ...]
    sites: tuple[SiteCost, ...]


def find_costs(calls: Calls, waits: Waits) -> Costs:
    """Add up waits by rank and by site."""
    size = max(calls.ranks, default=-1) + 1
    size = max(size, int(waits.for_rank.max(initial=NO_RANK)) + 1)
    seconds = waits.waited / 1e9
    blamed = waits.for_rank >= 0
    waited = np.bincount(calls.rank, weights=seconds, minlength=size)
    caused = np.bincount(waits.for_rank[blamed], weights=seconds[blamed], minlength=size)
    num_last = np.bincount(waits.for_rank[blamed], minlength=size)
    num_calls = np.bincount(calls.rank, minlength=size)
    ranks = [
        RankCost(
            rank=rank, num_calls=int(num_calls[rank]), seconds_waited=float(waited[rank]),
            seconds_caused=float(caused[rank]), num_last=int(num_last[rank]),
        )
        for rank in range(size)
    ]  # fmt: skip
    return Costs(seconds=calls.end / 1e9, ranks=tuple(ranks), sites=tuple(_sites(calls, waits)))


def _shown_sites(sites: Sequence[str]) -> list[str]:
    """Return the sites as they are shown: our own files, as of a thread of the loader, are not places of the user."""
    return [OWN_SITE if is_own_site(site) else site for site in sites]


def is_own_site(site: str) -> bool:
    """Say whether a site is in a file of this package, wherever it was installed when the job ran.

    >>> is_own_site("/elsewhere/site-packages/paceline/comm/torch_comm.py:12"), is_own_site("paceline/train.py:3")
    (True, False)
    """
    parts = PurePosixPath(site.rpartition(":")[0]).parts
    inner = [parts[at + 1 :] for at, part in enumerate(parts) if part == _PACKAGE.name]
    return any(len(path) > 1 and _PACKAGE.joinpath(*path).is_file() for path in inner)


def _sites(calls: Calls, waits: Waits) -> list[SiteCost]:
    """Return the calls, by site and operation, in which most time was waited."""
    shown = _shown_sites(calls.sites)
    first = {site: number for number, site in reversed(list(enumerate(shown)))}
    key = np.array([first[site] for site in shown], np.int64)[calls.site] * (1 << 16) + calls.operation
    keys, key_of_call = np.unique(key, return_inverse=True)
    totals = np.bincount(key_of_call, weights=waits.waited, minlength=len(keys))
    costs = []
    for index in np.argsort(-totals, kind="stable")[:_MOST_SITES].tolist():
        here = key_of_call == index
        waited, whom = waits.waited[here], waits.for_rank[here]
        by_rank = np.bincount(whom[whom >= 0], weights=waited[whom >= 0])
        most = int(by_rank.argmax()) if len(by_rank) else None
        share = float(by_rank[most] / waited.sum()) if most is not None and waited.sum() else 0.0
        costs.append(
            SiteCost(
                site=shown[int(keys[index]) >> 16],
                call=shown_name(BY_CODE[int(keys[index]) & 0xFFFF].name),
                num_calls=int(here.sum()), seconds_waited=float(totals[index]) / 1e9,
                longest=float(waited.max()) / 1e9, mostly_for=most, mostly_share=share,
            )
        )  # fmt: skip
    return costs
