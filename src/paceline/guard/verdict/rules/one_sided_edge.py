"""The rule of topologies: a rank waits for a neighbour that does not have it among its own."""

from __future__ import annotations

from paceline.guard.shared_memory.operations import Needs
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.waits.topology_edges import silent_sources
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, verb


def find_one_sided_edge(inspection: Inspection, stuck: frozenset[int]) -> Finding | None:
    """Find a stuck rank that receives from neighbours which have come, and do not send to it."""
    for rank in sorted(stuck):
        state = inspection.state(rank)
        for waiting in state.waiting if state is not None else ():
            call = waiting.call
            if state is None or not call.is_collective or call.traits.needs is not Needs.NEIGHBOURS:
                continue
            come = [
                other for other in silent_sources(inspection.snapshot, state, call)
                if not inspection.lacks(other, call.position)
            ]  # fmt: skip
            if come:
                explanation = _explain(inspection, rank, come, call)
                return explained_finding(FindingKind.DEADLOCK, explanation, rank_groups(inspection))
    return None


def _explain(inspection: Inspection, rank: int, sources: list[int], call: Call) -> Explanation:
    topology, who = inspection.name(call.communicator), name_rank(rank)
    sends = verb(sources, "does not send", "do not send")
    return Explanation(
        ranks=tuple(sorted({rank, *sources})),
        summary=f"{who} receives from {name_ranks(sources)} on {topology}, but {name_ranks(sources)} {sends} to {who} "
        f"there: {who} waits in {call_name(call)} at {call.site}",
        cause=Cause.RECEIVE_WITHOUT_SEND,
        advice=f"name each edge at both ends where {topology} is made: what is a source of {who} must have {who} as a "
        "destination",
    )
