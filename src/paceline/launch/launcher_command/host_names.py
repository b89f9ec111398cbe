"""Which hosts a command names, and by which address of ours they reach us: by words, files and the resolver."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from paceline.launch.launcher_command.host_lists import MOST_HOSTS, expand_hosts
from paceline.launch.launcher_command.launcher_words import (
    MPI_HOST_FILES,
    MPI_HOSTS,
    SRUN_HOST_FILES,
    SRUN_HOSTS,
    find_launcher,
    launcher_options,
)

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?")  # what a name or an IPv4 address looks like
_FAR_AWAY = "192.0.2.1"  # of documentation: nothing is sent to it


def named_hosts(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the hosts that a launcher's command names, or its allocation; none if it starts ranks here.

    >>> named_hosts(["mpiexec", "-hosts", "n1,n2", "-n", "4", "python", "train.py"], {})
    ['n1', 'n2']
    >>> named_hosts(["mpirun", "--host", "n1:2,n2:2", "python", "train.py"], {})
    ['n1', 'n2']
    >>> named_hosts(["srun", "python", "train.py"], {"SLURM_JOB_NODELIST": "n[1-2],m3"})
    ['n1', 'n2', 'm3']
    >>> named_hosts(["mpiexec", "-n", "2", "python", "train.py", "--host", "database"], {})
    []
    """
    launcher = find_launcher(command)
    if launcher is None:
        return []
    is_srun, found = PurePath(command[launcher]).name == "srun", list[str]()
    for option in launcher_options(command):
        if option.name in (SRUN_HOSTS if is_srun else MPI_HOSTS):
            is_file = is_srun and "/" in option.value  # as srun has it
            found += _hosts_in_file(option.value) if is_file else expand_hosts(option.value)
        elif option.name in (SRUN_HOST_FILES if is_srun else MPI_HOST_FILES):
            found += _hosts_in_file(option.value)
    if not found:
        found = expand_hosts(environ.get("SLURM_JOB_NODELIST", ""))
    return [host for host in dict.fromkeys(found) if _HOST.fullmatch(host)][:MOST_HOSTS]


def _hosts_in_file(name: str) -> list[str]:
    try:
        lines = Path(name).read_text(errors="replace").splitlines()
    except OSError:  # it is the launcher's to complain
        return []
    words = (line.partition("#")[0].split() for line in lines)
    return [line[0].partition(":")[0] for line in words if line]


def addresses_of(host: str) -> list[str]:
    """Return the addresses of a host, those of IPv4 first; none if nobody knows it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted(dict.fromkeys(str(address[4][0]) for address in found), key=lambda address: ":" in address)


def is_this_host(host: str) -> bool:
    """Say whether a name is one of this host.

    >>> is_this_host("localhost")
    True
    """
    return host == socket.gethostname() or any(map(_is_own_address, addresses_of(host)))


def _is_own_address(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))  # only an address of one's own can be bound
        return True
    return False


def own_addresses(hosts: Iterable[str]) -> list[str]:
    """Return by which of our addresses these hosts reach us; where nothing is known of them, the one to the outside."""
    found = [_source_address(address) for host in hosts for address in addresses_of(host)[:1]]
    if not any(found):
        found = [_source_address(_FAR_AWAY), *addresses_of(socket.gethostname())]
    known = [address for address in dict.fromkeys(found) if address]
    outward = [address for address in known if not is_loopback(address)]
    return (outward or known)[:4]


def own_address(name: str) -> str:
    """Return the address under which other hosts find this one by its name.

    Many systems give their own name an address that only they can reach: then it is the one to the outside.
    """
    reachable = [address for address in addresses_of(name) if not is_loopback(address)]
    return [*reachable, *own_addresses([]), name][0]


def is_loopback(address: str) -> bool:
    """Say whether an address leads to the host itself, wherever it is used."""
    return address.startswith("127.") or address == "::1"


def _source_address(address: str) -> str:
    """Return the address that we have for a host at this address; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return str(probe.getsockname()[0])
    return ""
