"""How launchers are made to hand our variables on to ranks on other hosts. Only names are put on a command line."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import PurePath

from paceline.launch.launcher_command.launcher_words import LauncherOption, find_launcher, launcher_options

ENV_LIST = "OMPI_MCA_mca_base_env_list"  # names of variables that Open MPI hands on to other hosts
_BATCH_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")  # what batch systems tell every process of a job
_OPEN_MPI = ("mpirun", "mpiexec", "prterun", "orterun")
EXPORT = "SLURM_EXPORT_ENV"  # what srun hands on if no option says it; a script of `sbatch --export=NONE` has it
_NO_NAMES = ("NONE", "NIL")  # of srun: a list without names
# of MPICH: the options that hand on nothing, those that hand on what they list, and what both are called as one
_NOTHING, _LISTED = {"genvnone": "-genvlist", "envnone": "-envlist"}, ("genvlist", "envlist")
_VERSION_SECONDS = 10.0


def batch_job(environ: Mapping[str, str]) -> str:
    """Return what tells ranks of this batch job from those of jobs that one of them submits; "" if there is none.

    >>> batch_job({"SLURM_JOB_ID": "17"})
    'SLURM_JOB_ID=17'
    """
    return next((f"{name}={environ[name]}" for name in _BATCH_JOBS if environ.get(name)), "")


def with_names(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the command with our names in the list of variables that its launcher hands on, if it has one.

    >>> with_names(["srun", "--export=PATH", "python", "train.py"], ["KEY"])
    ['srun', '--export=PATH,KEY', 'python', 'train.py']
    >>> with_names(["mpiexec", "-genvnone", "-n", "2", "python", "train.py"], ["KEY"])
    ['mpiexec', '-genvlist', 'KEY', '-n', '2', 'python', 'train.py']
    """
    words, launcher = [[word] for word in command], find_launcher(command)
    if launcher is None:
        return list(command)
    is_srun, added = PurePath(command[launcher]).name == "srun", ",".join(names)
    options = launcher_options(command)
    if own := _own_names(command, launcher, options):  # they count for one program each, of those between colons
        before = [launcher, *(at for at, word in enumerate(command) if word == ":" and at > launcher)]
        for first, last in pairwise([*before, len(command)]):
            named = {option.value.partition("=")[0] for option in own if first < option.at < last}
            words[first] += [word for name in names if name not in named for word in ("-x", name)]
    for option in options:
        if is_srun and option.name == "export":
            begin = command[option.at].removesuffix(option.value)
            words[option.at] = [f"{begin}{_exported(option.value, added)}"]
        elif not is_srun and option.name in _LISTED:
            words[option.at] = [f"{command[option.at]},{added}"]
        elif not is_srun and option.name in _NOTHING:
            words[option.at] = [_NOTHING[option.name], added]
    return [word for part in words for word in part]


def _own_names(command: Sequence[str], launcher: int, options: Sequence[LauncherOption]) -> list[LauncherOption]:
    """Return the options by which a command names variables to Open MPI 4: it aborts a job that has a list as well."""
    own = [option for option in options if option.name == "x"]
    is_open_mpi = PurePath(command[launcher]).name in _OPEN_MPI
    return own if own and is_open_mpi and 0 < open_mpi_version(command[launcher]) < 5 else []


def _exported(value: str, added: str) -> str:
    """Return what srun is to hand on: all, or what it would have and our names."""
    return value if value == "ALL" else added if value in _NO_NAMES else f"{value},{added}"


def handing_on(command: Sequence[str], names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make Open MPI, and srun if it has a list, hand our names on; others hand on everything.

    >>> handing_on(["srun", "python", "train.py"], ["KEY"], {"SLURM_EXPORT_ENV": "NONE"})
    {'SLURM_EXPORT_ENV': 'KEY'}
    """
    launcher = find_launcher(command)
    if launcher is None:
        return {}
    before = environ.get(EXPORT)  # it counts for an srun, too, by which another launcher reaches its hosts
    exported = {EXPORT: _exported(before, ",".join(names))} if before else {}
    return exported | _open_mpi_list(command, launcher, names, environ)


def _open_mpi_list(
    command: Sequence[str], launcher: int, names: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str]:
    if PurePath(command[launcher]).name not in _OPEN_MPI:
        return {}
    if not open_mpi_version(command[launcher]) or _own_names(command, launcher, launcher_options(command)):
        return {}
    before = environ.get(ENV_LIST, "")
    return {ENV_LIST: ";".join([*filter(None, [before]), *names])}


@cache
def open_mpi_version(program: str) -> int:
    """Return the main version of Open MPI; 0 if it is another MPI."""
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
        words = asked.stdout.partition("(Open MPI)")[2].split()
        if words and words[0].partition(".")[0].isdecimal():
            return int(words[0].partition(".")[0])
    return 0
