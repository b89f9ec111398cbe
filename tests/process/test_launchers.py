"""What each launcher says in the environment of its ranks; samples are of real ones, shortened."""

from __future__ import annotations

import pytest

from paceline.comm import find_place
from paceline.errors import InputError
from paceline.process.launchers import (
    LAUNCHER_COMMANDS,
    LAUNCHER_PROGRAMS,
    LAUNCHERS,
    launched_rank,
    torchrun_environment,
    without_job,
)

TORCHRUN_4_OF_8 = {
    "RANK": "4", "WORLD_SIZE": "8", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1", "ROLE_RANK": "4",
    "MASTER_ADDR": "node1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip
HYDRA_1_OF_2 = {
    "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "11", "PMI_HOSTNAME": "node1", "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
}  # fmt: skip
OPEN_MPI_5_OF_6 = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "OMPI_UNIVERSE_SIZE": "8", "PMIX_RANK": "5",
    "PMIX_NAMESPACE": "prterun-node1-77@1",
}  # fmt: skip
# as a version of Open MPI has them that does not set its own rank
OPEN_MPI_BY_PMIX = {"PMIX_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": "prterun-node1-77@1"}
PMIX_ALONE = {"PMIX_RANK": "2", "PMIX_NAMESPACE": "prun-node1-5@1", "PMIX_SERVER_URI41": "..."}
MVAPICH_0_OF_2 = {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}
BATCH_SCRIPT = {"SLURM_PROCID": "0", "SLURM_NTASKS": "5", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "31"}
SRUN_4_OF_5 = {
    **BATCH_SCRIPT, "SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_ID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "3,2",
}  # fmt: skip
SRUN_BY_PMIX = {**SRUN_4_OF_5, "PMIX_RANK": "4", "PMIX_NAMESPACE": "slurm.pmix.31.0"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        (TORCHRUN_4_OF_8, ("torchrun", 4, 8, 4)),
        (HYDRA_1_OF_2, ("MPICH", 1, 2, 2)),
        (OPEN_MPI_5_OF_6, ("Open MPI", 5, 6, 3)),
        (OPEN_MPI_BY_PMIX, ("PMIx", 2, 3, None)),
        (PMIX_ALONE, ("PMIx", 2, None, None)),
        (MVAPICH_0_OF_2, ("MVAPICH", 0, 2, 2)),
        (BATCH_SCRIPT, None),
        (SRUN_4_OF_5, ("srun", 4, 5, None)),
        (SRUN_BY_PMIX, ("srun", 4, 5, None)),
        (SRUN_4_OF_5 | TORCHRUN_4_OF_8, ("torchrun", 4, 8, 4)),
        (BATCH_SCRIPT | HYDRA_1_OF_2, ("MPICH", 1, 2, 2)),
        ({"RANK": "1"}, ("torchrun", 1, None, None)),
        ({"RANK": "1"} | HYDRA_1_OF_2, ("MPICH", 1, 2, 2)),
    ],
)
def test_each_launcher_is_known(environ: dict[str, str], expected: tuple[object, ...] | None) -> None:
    found = launched_rank(environ)
    said = None if found is None else (found.launcher.name, found.rank, found.world_size, found.local_size)
    assert said == expected


def test_a_rank_whose_job_has_an_unknown_size_is_not_taken_for_alone() -> None:
    with pytest.raises(InputError, match="PMIX_RANK=2 says which rank this is, but nothing says how many there are"):
        find_place(environ=PMIX_ALONE)
    with pytest.raises(InputError, match="PMI_RANK=1 says which rank this is"):
        find_place(environ={"PMI_RANK": "1"})
    assert find_place(environ=OPEN_MPI_BY_PMIX).world_size == 3
    assert find_place(environ=SRUN_BY_PMIX).source == "srun"


@pytest.mark.parametrize("text", ["", "-1", "1.0", "one", "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT TWO}", "9" * 8])
def test_what_is_not_a_number_is_refused(text: str) -> None:
    for environ in (HYDRA_1_OF_2 | {"PMI_RANK": text}, HYDRA_1_OF_2 | {"PMI_SIZE": text}):
        with pytest.raises(InputError, match="of MPICH is not a number"):
            launched_rank(environ)


def test_ranks_of_one_job_are_alike_and_jobs_are_not() -> None:
    others = (TORCHRUN_4_OF_8 | {"RANK": "5", "LOCAL_RANK": "1"}, TORCHRUN_4_OF_8 | {"MASTER_PORT": "29501"})
    jobs = [found.job for environ in (TORCHRUN_4_OF_8, *others) if (found := launched_rank(environ)) is not None]
    assert jobs[0] == jobs[1] != jobs[2]


def test_a_rank_that_we_start_finds_its_place() -> None:
    place = find_place(environ=SRUN_4_OF_5 | torchrun_environment(1, 3, port=15_000))
    assert (place.rank, place.world_size, place.source) == (1, 3, "torchrun")


@pytest.mark.parametrize("job", [TORCHRUN_4_OF_8, HYDRA_1_OF_2, OPEN_MPI_5_OF_6, OPEN_MPI_BY_PMIX, MVAPICH_0_OF_2])
def test_a_new_job_is_not_taken_for_the_one_around_it(job: dict[str, str]) -> None:
    cleaned = without_job(job | {"PATH": "/bin"})
    assert launched_rank(cleaned) is None
    assert "MASTER_PORT" not in cleaned
    assert cleaned["PATH"] == "/bin"


def test_an_allocation_of_slurm_stays_for_the_launchers_in_it() -> None:
    assert without_job(SRUN_4_OF_5) == SRUN_4_OF_5


def test_programs_are_named_as_the_kernel_does() -> None:
    assert all(len(name) <= 15 for name in LAUNCHER_PROGRAMS)
    assert "slurmstepd" not in LAUNCHER_COMMANDS
    assert len({launcher.rank for launcher in LAUNCHERS}) == len(LAUNCHERS)
