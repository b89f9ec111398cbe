"""`paceline.guard.enable()` on three hosts: ranks as torchrun starts them, which find the head by their variables."""

from __future__ import annotations

import subprocess

from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import DEADLINE, ON_HOSTS, nothing_is_left, start

pytestmark = ON_HOSTS
_KEY = "cd" * 32


def _run(
    cluster: Cluster, kind: str, port: int, keys: tuple[str, ...] = (_KEY,) * 3
) -> tuple[list[int], list[str], str]:
    """Run a rank on each host; return their codes, what each said, and all that they printed."""
    ranks: list[subprocess.Popen[str]] = []
    for number, host in enumerate(cluster.names):
        place = {"RANK": str(number), "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                 "MASTER_ADDR": "n1", "MASTER_PORT": str(port), "PACELINE_KEY": keys[number]}  # fmt: skip
        ranks.append(start(cluster, host, ["python", "enabled.py", kind], place))
    try:
        outputs = [rank.communicate(timeout=DEADLINE) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], [said for _, said in outputs], "".join(text for text, _ in outputs)


def test_a_rank_out_of_line_is_named_on_every_host(cluster: Cluster) -> None:
    codes, said, _ = _run(cluster, "mismatch", 29431)
    assert all(codes), said
    for text in said:
        assert "rank 2 (n3)" in text, text
        assert "cause: rank-conditional-call" in text
        assert _KEY not in text
    assert "watching other hosts through n1:" in said[0]
    assert [text.count("paceline-out") for text in said] == [1, 0, 0]  # the head keeps the records of all
    nothing_is_left(cluster)


def test_a_correct_job_ends_as_it_would_bare(cluster: Cluster) -> None:
    codes, said, printed = _run(cluster, "correct", 29432)
    assert (codes, printed) == ([0, 0, 0], "end\n" * 3), said
    assert [text.count("paceline:") for text in said] == [1, 1, 1], said
    nothing_is_left(cluster)


def test_a_correct_job_ends_as_it_would_bare_although_its_head_is_killed(cluster: Cluster) -> None:
    codes, said, printed = _run(cluster, "head killed", 29433)
    assert (codes, printed) == ([0, 0, 0], "end\n" * 3), said
    # if its keeper was killed with it; as the next run would, after a minute
    left = cluster.on("n1", ["sh", "-c", "rm -rf /dev/shm/paceline-*"])
    subprocess.run(left, check=True)
    nothing_is_left(cluster)


def test_a_rank_out_of_line_is_named_although_the_head_was_killed(cluster: Cluster) -> None:
    codes, said, _ = _run(cluster, "head killed, mismatch", 29435)
    assert all(codes), said
    assert "was killed by SIGKILL; it is started again, and knows everything in a moment" in said[0]
    for text in said:
        assert "rank 2 (n3)" in text, text
        assert "cause: rank-conditional-call" in text
    assert not any("judged alone" in text for text in said), said
    nothing_is_left(cluster)


def test_a_host_with_another_key_is_judged_alone_and_says_so(cluster: Cluster) -> None:
    """Its ranks are not seen by the head; nobody is named."""
    codes, said, printed = _run(cluster, "slow", 29434, (_KEY, _KEY, "ef" * 32))
    assert (codes, printed) == ([0, 0, 0], "end\n" * 3), said
    assert "so the ranks of this host are judged alone: does Paceline run there too, with the same key" in said[2]
    assert not any("cause:" in text for text in said)
    nothing_is_left(cluster)
