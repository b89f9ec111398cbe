"""`paceline bench run` by a launcher that starts it on three hosts: one result, with figures for each host."""

from __future__ import annotations

import json

from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import ON_HOSTS, end_watched, nothing_is_left, on_hosts, run_watched, start

pytestmark = ON_HOSTS
_SETTINGS = (
    "dataset.num_files_train=26", "reader.batch_size=2", "train.computation_time=0.01", "train.epochs=2",
    "reader.file_shuffle=random",
)  # fmt: skip


def _bench(cluster: Cluster, *words: str) -> list[str]:
    settings = (f"dataset.data_folder={cluster.folder}/data", *_SETTINGS)
    return [*on_hosts(cluster), "paceline", "bench", "run", "small", *settings, *words, "--out", "out"]


def test_the_benchmark_on_three_hosts_makes_one_result(cluster: Cluster) -> None:
    done, _ = end_watched(cluster, start(cluster, "n1", _bench(cluster, "workflow.generate_data=True")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("6 ranks (mpi) on 3 hosts") == 1, done.stdout
    told = json.loads((cluster.folder / "out" / "summary.json").read_text())
    assert (told["outcome"], told["num_accelerators"]) == ("ok", 6)
    hosts = told["paceline"]["hosts"]
    assert {name: host["ranks"] for name, host in hosts.items()} == {"n1": [0, 1], "n2": [2, 3], "n3": [4, 5]}
    assert all(host["samples_per_second"] > 0 for host in hosts.values())
    watched, finding = run_watched(cluster, _bench(cluster))
    assert (watched.returncode, finding) == (0, None), watched.stderr
    assert watched.stdout.count("6 ranks (mpi) on 3 hosts") == 1
    nothing_is_left(cluster)


def test_a_file_that_is_damaged_ends_the_benchmark_on_all_hosts(cluster: Cluster) -> None:
    settings = ["dataset.format=npz", f"dataset.data_folder={cluster.folder}/damaged"]
    done, _ = end_watched(cluster, start(cluster, "n1", _bench(cluster, *settings, "workflow.generate_data=True")))
    assert done.returncode == 0, done.stderr
    victim = sorted((cluster.folder / "damaged").rglob("*.npz"))[7]
    victim.write_bytes(victim.read_bytes()[:40])
    done, _ = end_watched(cluster, start(cluster, "n1", _bench(cluster, *settings)))
    assert done.returncode not in (0, 90)
    assert victim.name in done.stderr
    nothing_is_left(cluster)
