"""Debian's Slurm on hosts of this machine. Only for root.

Its packages are unpacked into a folder (`make .slurm/.unpacked`), which the hosts see within /usr: nothing of the
machine changes. The first host has the controller, all of them have nodes.
"""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.guard.hosts.cluster import Cluster, hosts_up

PACKAGES = Path(__file__).parents[3] / ".slurm" / "unpacked"
_START_SECONDS = 120
_SLURM_CONF = """
ClusterName=paceline
SlurmctldHost=n1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/{tracked_by}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
StateSaveLocation=/run/slurmctld
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
KillWait=5
MinJobAge=60
NodeName=n[1-3] CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""
_SETUP = """
mount -t overlay overlay -o lowerdir={packages}/usr:/usr /usr
mount -t overlay overlay -o lowerdir={folder}/etc:/etc /etc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/freezer
{freezer}
mkdir /run/munge /run/slurmd /run/slurmctld /run/pmix
"""
_FREEZER = "mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer"
_DAEMONS = (
    (
        "munged",
        "--force",
        "--key-file=/etc/munge/munge.key",
        "--seed-file=/run/munge/seed",
        "--log-file={folder}/munged.{name}.log",
    ),
    ("slurmctld",),
    ("slurmd",),
)


@cache
def why_no_cgroups() -> str:
    """Return why Slurm cannot track processes by cgroup on this machine; nothing if it can."""
    with TemporaryDirectory() as folder:
        tried = subprocess.run(
            ["unshare", "--mount", *_FREEZER.split()[:-1], folder], check=False, capture_output=True, text=True
        )
    return f"Slurm 22.05 freezes the cgroups of version 1 here: {tried.stderr.strip()}" if tried.returncode else ""


@contextmanager
def slurm_up(folder: Path, *, tracked_by: str = "pgid") -> Iterator[Cluster]:
    """Bring three hosts up with Slurm on them, and take them down again."""
    for name, text in (
        ("slurm/slurm.conf", _SLURM_CONF.format(folder=folder, tracked_by=tracked_by)),
        ("slurm/mpi.conf", "PMIxCliTmpDirBase=/run/pmix\n"),
        ("slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n"),
        ("munge/munge.key", secrets.token_hex(32)),
    ):
        path = folder / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    setup = _SETUP.format(packages=PACKAGES, folder=folder, freezer=_FREEZER if tracked_by == "cgroup" else "")
    with hosts_up(folder, setup=setup, first_shares=False) as cluster, _cgroups_removed(tracked_by):
        for name in cluster.names:
            for program, *options in _DAEMONS:
                if program != "slurmctld" or name == cluster.names[0]:
                    words = [option.format(folder=folder, name=name) for option in options]
                    subprocess.run(cluster.on(name, [f"/usr/sbin/{program}", *words]), check=True, timeout=60)
        _await_nodes(cluster)
        yield cluster


@contextmanager
def _cgroups_removed(tracked_by: str) -> Iterator[None]:
    """Remove the cgroups of nodes in the end: they are in one tree for all hosts, and outlive them."""
    try:
        yield
    finally:
        if tracked_by == "cgroup":
            mount = _FREEZER.replace("/sys/fs/cgroup/freezer", '"$0"')
            remove = f'{mount} && find "$0"/slurm_n[123] -depth -type d -delete'
            with TemporaryDirectory() as folder:
                subprocess.run(["unshare", "--mount", "sh", "-c", remove, folder], check=True)


def _await_nodes(cluster: Cluster) -> None:
    deadline = time.monotonic() + _START_SECONDS
    command = cluster.on(cluster.names[0], ["sinfo", "--noheader", "--format=%D %t"])
    while True:
        asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if asked.stdout.split() == [str(len(cluster.names)), "idle"]:
            return
        if time.monotonic() > deadline:
            logs = "".join(path.read_text() for path in sorted(cluster.folder.glob("*.log")))
            raise RuntimeError(f"Slurm did not come up: {asked.stdout}{asked.stderr}{logs}")
        time.sleep(0.1)
