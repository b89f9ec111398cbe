"""Which words of a command are the launcher's own, and whether they mean that ranks start on other machines.

Options of the program may have the same names. A word without a dash is the program, unless it is the value of an
option that takes one: so the options that take values are listed here.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from paceline.process.exit_codes import signal_of
from paceline.process.launchers import LAUNCHER_MODULES, LAUNCHER_PROGRAMS, LAUNCHER_SCRIPTS

# of MPICH, Intel MPI and Open MPI together: their commands have the same names
_MPI_WORDS = """
    n np c N ppn perhost host hosts hostlist H hostfile machinefile machine f default-hostfile add-host add-hostfile
    rf rankfile wdir wd x map-by bind-to rank-by npernode npersocket npernuma cpu-set cpu-list path arch soft file
    configfile config launcher bootstrap launcher-exec bootstrap-exec rmk iface genvlist envlist genvexcl envexcl
    binding membind topolib ckpoint-interval ckpoint-prefix ckpoint-num ckpointlib outfile-pattern errfile-pattern
    outfile errfile nameserver usize timeout preload-files output-filename output-directory output stdin prefix app
    am tune max-restarts max-vm-size personality dvm dvm-uri report-uri report-pid ompi-server server-wait-time
    display runtime-options order-nodes gtool s demux tmpdir gpath gwdir gumask umask ghost garch gsoft
    cpus-per-proc cpus-per-rank xterm ranks-per-proc rankmap memory-alloc-kinds gpus-per-proc localhost prepend-pattern
    spawn-timeout app-pmix-prefix pmix-prefix pset set-env unset-env gpu-support forward-signals keepalive launch-agent
    singleton ppr cf cartofile debugger hnp report-events xml-file
"""
# with two values: NAME VALUE
_MPI_PAIRS = ("mca", "gmca", "omca", "gomca", "prtemca", "gprtemca", "pmixmca", "gpmixmca", "genv", "env", "append-env",
              "prepend-env")  # fmt: skip
_STDIN_RANKS = re.compile(
    r"all|none|[\d,-]+"
)  # after -s of Intel MPI; -s of Open MPI is another option, without a value
_SRUN_LETTERS = frozenset("AbBcCdDeFGiJLmMnNopPqrStTwWx")
_SRUN_WORDS = """
    account acctg-freq bb bbf bcast-exclude begin chdir cluster-constraint clusters comment constraint container
    container-id core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
    dependency distribution epilog error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus
    gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint input job-name jobid licenses
    mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout network nodefile
    nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode
    output pack-group partition power prefer priority profile prolog qos relative reservation segment signal
    slurmd-debug sockets-per-node switches task-epilog task-prolog tasks-per-node thread-spec threads
    threads-per-core time time-min tmp tree-width tres-bind tres-per-task uid wait wckey
"""
_MPI_VALUES, _SRUN_VALUES = frozenset(_MPI_WORDS.split()), frozenset(_SRUN_WORDS.split())
# which options name hosts, and which name files of hosts; -H of srun is something else
MPI_HOSTS, SRUN_HOSTS = ("host", "hosts", "hostlist", "H", "add-host"), ("w", "nodelist")
MPI_HOST_FILES, SRUN_HOST_FILES = (
    ("hostfile", "machinefile", "machine", "f", "default-hostfile", "add-hostfile"),
    ("F", "nodefile"),
)
_SRUN = "srun"  # it asks the batch system, and runs on the machines of the allocation


class LauncherOption(NamedTuple):
    """An option of a launcher.

    Attributes:
        name: Its name, without dashes.
        value: Its first value; empty if it has none.
        at: Which word of the command holds the value.
    """

    name: str
    value: str
    at: int


def find_launcher(command: Sequence[str]) -> int | None:
    """Return which word is the launcher that starts processes; None if a script comes first, or there is none.

    >>> find_launcher(["nice", "mpiexec", "-n", "2", "python"]), find_launcher(["python", "train.py", "srun"])
    (1, None)
    """
    for at, word in enumerate(command):
        name = PurePath(word).name
        if name in LAUNCHER_PROGRAMS:
            return at
        if name.startswith("python") or name.endswith(".py") or name in (*LAUNCHER_SCRIPTS, *LAUNCHER_MODULES):
            return None
    return None


def launcher_options(command: Sequence[str]) -> list[LauncherOption]:
    """Return the options of the launcher itself, of all programs that it starts.

    >>> launcher_options(["mpiexec", "-n", "4", "-hosts=n1", "./run.sh", "-f", "x", ":", "-n", "1", "python"])
    [LauncherOption(name='n', value='4', at=2), LauncherOption(name='hosts', value='n1', at=3), \
LauncherOption(name='n', value='1', at=9)]
    """
    launcher = find_launcher(command)
    if launcher is None:
        return []
    is_srun = PurePath(command[launcher]).name == _SRUN
    begins, found = [launcher + 1], list[LauncherOption]()
    if not is_srun:  # a colon is never an argument of a program there
        begins += [at + 1 for at in range(launcher + 1, len(command)) if command[at] == ":"]
    for begin in begins:
        found += _srun_options(command, begin) if is_srun else _mpi_options(command, begin)
    return found


def launcher_elsewhere(command: Sequence[str]) -> str | None:
    """Return the launcher of a command that may start ranks on other machines; None if it starts them here.

    >>> launcher_elsewhere(["mpiexec", "-hosts", "n1,n2", "python", "train.py"])
    'mpiexec'
    >>> launcher_elsewhere(["mpiexec", "-n", "4", "./run.sh", "-f", "cfg.toml"]) is None
    True
    """
    at = find_launcher(command)
    if at is None:
        return None
    name = PurePath(command[at]).name
    names_hosts = any(option.name in (*MPI_HOSTS, *MPI_HOST_FILES) for option in launcher_options(command))
    return name if name == _SRUN or names_hosts else None


def killing_signal(command: Sequence[str], code: int) -> int | None:
    """Return the signal that has killed a rank, as the code of its launcher says; None if nothing is said.

    MPICH's code is the bare number of the signal, and another one if the time limit of mpiexec has run out. The codes
    of srun, and of scripts and commands around a launcher, may mean that somebody has killed the whole job.

    >>> killing_signal(["mpiexec", "-n", "2", "x"], 9), killing_signal(["mpiexec", "-n", "2", "x"], 137)
    (9, 9)
    >>> killing_signal(["srun", "x"], 137), killing_signal(["timeout", "-s9", "1", "mpiexec", "x"], 137)
    (None, None)
    """
    if find_launcher(command) != 0 or PurePath(command[0]).name == _SRUN:
        return None
    return signal_of(code) or (code if code in signal.valid_signals() else None)


def _mpi_options(command: Sequence[str], at: int) -> Iterator[LauncherOption]:
    while at < len(command) and len(command[at]) > 1 and command[at].startswith("-"):
        name, has_value, value = command[at].lstrip("-").partition("=")
        num_values = 0 if has_value else 2 if name in _MPI_PAIRS else int(name in _MPI_VALUES)
        if name == "s" and not _STDIN_RANKS.fullmatch("".join(command[at + 1 : at + 2])):
            num_values = 0
        if num_values and at + 1 < len(command):
            value = command[at + 1]
            num_values = 1 if "=" in value and "env" in name else num_values  # MPICH takes NAME=VALUE too
            yield LauncherOption(name, value, at + 1)
        else:
            yield LauncherOption(name, value, at)
        at += 1 + num_values


def _srun_options(command: Sequence[str], at: int) -> Iterator[LauncherOption]:
    while at < len(command) and len(command[at]) > 1 and command[at].startswith("-") and command[at] != "--":
        word = command[at]
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            takes_next = not has_value and name in _SRUN_VALUES
        else:
            name, value = word[1], word[2:]  # -w n1, or -wn1
            takes_next = not value and name in _SRUN_LETTERS
        if takes_next and at + 1 < len(command):
            yield LauncherOption(name, command[at + 1], at + 1)
        else:
            yield LauncherOption(name, value, at)
        at += 1 + takes_next
