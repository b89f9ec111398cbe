"""Real jobs on three hosts whose ranks call differently and go on: they are ended, and correct ones are left alone."""

from __future__ import annotations

import re

import pytest
from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import ON_HOSTS, nothing_is_left, on_hosts, run_watched
from tests.guard.hosts.host_programs import line_of

pytestmark = ON_HOSTS


def _passed(cluster: Cluster, kind: str, seconds: float, pause: float) -> list[str]:
    return [*on_hosts(cluster), "python", "passed.py", kind, str(seconds), str(pause)]


@pytest.mark.parametrize(("kind", "pause"), [("always", 0.0), ("always", 0.05), ("once", 0.02)])
def test_ranks_that_call_differently_and_go_on_are_named_with_their_line(
    cluster: Cluster, kind: str, pause: float
) -> None:
    done, finding = run_watched(cluster, _passed(cluster, kind, 120.0, pause))
    assert done.returncode == 90, done.stderr
    assert (finding["kind"], finding["ranks"]) == ("mismatch", [4, 5]), done.stderr
    (group,) = [group for group in finding["groups"] if group["ranks"] == [4, 5]]
    assert "op=MPI.MAX" in line_of(cluster.folder / "passed.py", group["site"])
    assert group["hosts"] == ["n3"]
    nothing_is_left(cluster)


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_message_of_another_element_type_is_found_although_both_sides_go_on(cluster: Cluster, pause: float) -> None:
    done, finding = run_watched(cluster, _passed(cluster, "message", 120.0, pause))
    assert done.returncode == 90, done.stderr
    assert (finding["kind"], finding["ranks"], finding["cause"]) == ("message", [2, 5], "dtype"), done.stderr
    sites = [group["site"] for group in finding["groups"] if group["ranks"] in ([2], [5])]
    assert len(sites) == 2
    lines = [line_of(cluster.folder / "passed.py", site) for site in sites]
    assert all(re.search(r"world\.(Sendrecv|Isend|Recv)\(", line) for line in lines)


def test_a_difference_of_a_job_that_is_soon_over_is_found_when_it_has_ended(cluster: Cluster) -> None:
    done, finding = run_watched(cluster, _passed(cluster, "always", 0.0, 0.0))
    assert (done.returncode, finding["ranks"]) == (90, [4, 5]), done.stderr


@pytest.mark.parametrize("pause", [0.0, 0.01])
def test_a_correct_job_that_goes_on_is_left_alone(cluster: Cluster, pause: float) -> None:
    """Its ranks know different things of a Gatherv, and send objects of other sizes."""
    done, finding = run_watched(cluster, _passed(cluster, "correct", 8.0, pause))
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    nothing_is_left(cluster)
