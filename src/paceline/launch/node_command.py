"""What a command says that is given once on each node: how many nodes there are, and where they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from paceline.process.launchers import LAUNCHER_MODULES, LAUNCHER_PROGRAMS

_PORT = 29500  # of torchrun, if none is given
# options of torchrun without a value
_FLAGS = ("standalone", "no_python", "run_path", "m", "module", "h", "help", "virtual_local_rank", "use_env")


class NodeMeeting(NamedTuple):
    """Where the nodes of a job meet.

    Attributes:
        num_nodes: How many there are, at most.
        host: Where they meet.
        port: At which port.
        job: The job's own name, as far as it has one.
    """

    num_nodes: int
    host: str
    port: int
    job: str


def node_meeting(command: Sequence[str], environ: Mapping[str, str]) -> NodeMeeting | None:
    """Return where the nodes of a torchrun meet; None if it runs on one node, or is another command.

    >>> node_meeting(["torchrun", "--nnodes", "2", "--rdzv-endpoint=n1:29400", "train.py"], {})
    NodeMeeting(num_nodes=2, host='n1', port=29400, job='')
    >>> node_meeting(["torchrun", "--nnodes=1:4", "--master_addr", "n1", "train.py"], {})
    NodeMeeting(num_nodes=4, host='n1', port=29500, job='')
    >>> node_meeting(["torchrun", "train.py", "--nnodes", "4", "--master-addr", "n1"], {}) is None
    True
    >>> node_meeting(["srun", "torchrun", "--nnodes", "2", "--master-addr", "n1", "train.py"], {}) is None
    True
    """
    at = next((at for at, word in enumerate(command) if _is_torchrun(word)), None)
    if at is None or any(_starts_first(word) for word in command[:at]):
        return None
    options = _options(command[at + 1 :])

    def value(name: str) -> str:
        return options.get(name, environ.get(f"PET_{name.upper()}", ""))

    if "standalone" in options or value("standalone") == "1":
        return None
    nodes = value("nnodes").rpartition(":")[2]
    num_nodes = int(nodes) if nodes.isdecimal() else 1
    host, port = _endpoint(value("rdzv_endpoint"))
    if not host:
        host, port = value("master_addr"), ""
    host, port = host.strip("[]"), port or value("master_port")
    if num_nodes < 2 or not host:
        return None
    return NodeMeeting(num_nodes, host, int(port) if port.isdecimal() else _PORT, value("rdzv_id"))


def _is_torchrun(word: str) -> bool:
    return PurePath(word).name == "torchrun" or word in LAUNCHER_MODULES[:2]


def _starts_first(word: str) -> bool:
    """Say whether a word before torchrun is one that starts it on all nodes, or a script that has it as a word."""
    return PurePath(word).name in LAUNCHER_PROGRAMS or word.endswith(".py")


def _endpoint(text: str) -> tuple[str, str]:
    """Return host and port; an address of IPv6 with a port has brackets."""
    if text.endswith("]") or ":" not in text:
        return text, ""
    host, _, port = text.rpartition(":")
    return host, port


def _options(words: Sequence[str]) -> dict[str, str]:
    """Return the options of torchrun with their values, by name with underscores; those of its script are not."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, has_value, value = words[at].lstrip("-").partition("=")
        name = name.replace("-", "_")
        takes_next = not has_value and name not in _FLAGS
        found[name] = "".join(words[at + 1 : at + 2]) if takes_next else value
        at += 1 + takes_next
    return found
