"""Every example runs as its first lines say, on real ranks, and gives what one process gives."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import torch
from torch.utils.data import default_collate

from paceline import Batch, PackPlan, Plan
from paceline.batch import Collate

pytestmark = [pytest.mark.examples, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN = EXAMPLES / "ranking" / "train.py"
DEADLINE = 280.0  # seconds: ranks start in a few, if nothing else runs
FINDING_CODE = 90
BROKEN_USERS = 59  # 146 samples on three ranks and 143 on the last: a full batch of 16 less


def run(*command: str, folder: Path | None = None, expected: int = 0, deadline: float = DEADLINE) -> str:
    """Run a command as a user would; return what it said."""
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command,
        cwd=folder or EXAMPLES,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": found},
        capture_output=True,
        text=True,
        timeout=deadline,
        check=False,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def paceline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "paceline", *arguments]


def example_module(name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES / "ecosystem"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


def losses_of_one_process() -> list[float]:
    """Train what the examples train, with nothing but torch and the order of the plan."""
    problem = example_module("problem")
    points, model = problem.Points(), problem.make_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = Plan(problem.NUM_SAMPLES, world_size=1, batch_size=problem.GLOBAL_BATCH, seed=0)
    losses = []
    for epoch in range(problem.EPOCHS):
        total = 0.0
        for row in plan.rows(0, epoch):
            batch: Batch = Collate(problem.GLOBAL_BATCH)([points[int(sample)] for sample in row if sample >= 0])
            loss: Any = problem.loss_sum(model, batch)
            optimiser.zero_grad()
            (loss / batch.num_real).backward()
            optimiser.step()
            total += loss.item()
        losses.append(total / problem.NUM_SAMPLES)
    return losses


def losses_on_packs_of_one_process(num_ranks: int) -> list[float]:
    """Train on the packs of all ranks, step by step, with nothing but torch and the plan."""
    texts = example_module("texts")
    model, packs = texts.NextToken(), texts.Packs()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    packs_per_step = texts.GLOBAL_PACKS // num_ranks
    plan = PackPlan(texts.LENGTHS, world_size=num_ranks, max_tokens=texts.BUDGET, packs_per_step=packs_per_step)
    losses = []
    for epoch in range(2):
        total = num_tokens = 0.0
        for step in range(plan.num_steps):
            lists = [pack for rank in range(num_ranks) for pack in plan.packs(rank, epoch, step, 1)[0]]
            loss, num_in_step = texts.token_losses(model, default_collate([packs[pack.tolist()] for pack in lists]))
            optimiser.zero_grad()
            (loss / num_in_step).backward()
            optimiser.step()
            total, num_tokens = total + loss.item(), num_tokens + num_in_step
        losses.append(total / num_tokens)
    return losses


TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2")
ECOSYSTEM = {
    "ddp": TORCHRUN,
    "fsdp2": TORCHRUN,
    "accelerate_loop": TORCHRUN,
    "stateful_dataloader": TORCHRUN,
    # Lightning starts the second rank itself, and imports mpi4py in both
    "lightning_trainer": (sys.executable, "-m", "paceline", "run", "--notice", "100", "--", sys.executable),
    "mpi_torch": ("mpiexec", "-n", "2", sys.executable),
    "hf_datasets": TORCHRUN,
    "hf_trainer": TORCHRUN,
}
ELSEWHERE = ("deepspeed_engine", "mosaic_streaming", "ray_train")  # have environments and targets of their own
PACKED = {"hf_trainer_packs": TORCHRUN, "lightning_packs": (sys.executable,)}
# They count what they read, in these steps. Of three tar files one rank reads two, of 18 and 17; datasets deals single
# samples if shards do not divide among ranks.
STREAMS = {"hf_datasets": 27, "webdataset_stream": 35}
# which `make test-examples` installs
PACKAGES = {
    "hf_datasets": "datasets",
    "hf_trainer": "transformers",
    "hf_trainer_packs": "transformers",
    "webdataset_stream": "webdataset",
}


def test_every_example_is_in_the_table() -> None:
    found = {path.stem for path in (EXAMPLES / "ecosystem").glob("*.py")} - {"problem", "texts"}
    assert found == set(ECOSYSTEM) | set(STREAMS) | set(PACKED) | set(ELSEWHERE)


@pytest.mark.parametrize("example", ECOSYSTEM)
def test_the_losses_are_those_of_one_process(example: str) -> None:
    pytest.importorskip(PACKAGES.get(example, "torch"))
    said = run(*ECOSYSTEM[example], f"ecosystem/{example}.py")
    found = re.findall(r"^epoch (\d): 53 samples, loss ([\d.]+)$", said, flags=re.MULTILINE)
    assert [int(epoch) for epoch, _ in found] == [0, 1]
    assert [float(loss) for _, loss in found] == pytest.approx(losses_of_one_process(), abs=5e-6)
    told = re.findall(
        r"^paceline: epoch (\d): 7 steps, imbalance [\d.]+, .*; rank [01] costs most: ", said, re.MULTILINE
    )
    assert told == (["0", "1"] if example == "lightning_trainer" else [])
    assert said.count("paceline:") == len(told), said  # nothing from the guard


@pytest.mark.parametrize("example", PACKED)
def test_the_losses_on_packs_are_those_of_one_process(example: str) -> None:
    pytest.importorskip(PACKAGES.get(example, "torch"))
    said = run(*PACKED[example], f"ecosystem/{example}.py")
    found = re.findall(r"^epoch (\d): (\d+) tokens, loss ([\d.]+)$", said, flags=re.MULTILINE)
    texts = example_module("texts")
    num_followed = int(texts.LENGTHS.sum()) - texts.NUM_TEXTS
    assert [(int(epoch), int(tokens)) for epoch, tokens, _ in found] == [(0, num_followed), (1, num_followed)]
    assert [float(loss) for *_, loss in found] == pytest.approx(losses_on_packs_of_one_process(2), abs=5e-6)


def test_the_trainer_of_hugging_face_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    trainer = ("ecosystem/hf_trainer.py", "--out", str(tmp_path))
    stopped = run(*TORCHRUN, *trainer, "--stop-after", "3")
    assert "epoch 0" not in stopped
    resumed = run(*TORCHRUN[:-1], "1", *trainer, "--resume")
    found = re.findall(r"^epoch (\d): (\d+) samples, loss ([\d.]+)$", resumed, flags=re.MULTILINE)
    assert [(epoch, used) for epoch, used, _ in found] == [("0", "29"), ("1", "53")]
    assert float(found[1][2]) == pytest.approx(losses_of_one_process()[1], abs=5e-6)


@pytest.mark.parametrize("example", STREAMS)
def test_every_sample_of_a_stream_comes_once_and_ranks_stop_together(example: str) -> None:
    pytest.importorskip(PACKAGES[example])
    said = run(*TORCHRUN, f"ecosystem/{example}.py")
    assert f"stream: 53 samples in {STREAMS[example]} steps on every rank\n" in said


# The ranking job.


def test_the_demo_shows_a_job_that_hangs_then_why_then_one_that_stays_in_line() -> None:
    said = run(sys.executable, "demo.py", "--users", str(BROKEN_USERS), deadline=3 * DEADLINE)
    assert "(it prints nothing)\n(all 7 ranks have been running for 5 s; stopped)" in said
    page = re.search(r"written: (paceline-out/[\w-]+/report.html)", said)
    assert page is not None
    assert (EXAMPLES.parent / page[1]).is_file()
    assert re.search(r"epoch 1: loss [\d.]+, AUC [\d.]+, \d+ ms per step\n", said)
    before, after = re.findall(r"epoch 1: 10 steps, 581 used, 59 padded, imbalance ([\d.]+) -> ([\d.]+)", said)[0]
    assert float(after) < float(before)
    assert "rank 6 fell out of line: it left the loop" in said
    assert "cause: uneven-steps" in said


def test_the_ranking_job_with_the_classic_bug_is_diagnosed() -> None:
    broken = ("ranking/train.py", "--broken", "--users", str(BROKEN_USERS))
    said = run(*paceline("run", "-n", "4", *broken), expected=FINDING_CODE)
    assert "rank 3 fell out of line: it left the loop" in said
    assert "cause: uneven-steps" in said


def test_a_rank_that_is_killed_in_an_epoch_is_named(tmp_path: Path) -> None:
    command = paceline("run", "--json", "outcome.json", "-n", "3", str(TRAIN), "--users", "400", "--epochs", "50")
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL,
    ) as job:  # fmt: skip
        victim = wait_for_training(job.pid, tmp_path)
        os.kill(victim, signal.SIGKILL)
        _, said = job.communicate(timeout=DEADLINE)
    assert job.returncode == FINDING_CODE, said
    finding = json.loads((tmp_path / "outcome.json").read_text())["finding"]
    assert (finding["kind"], finding["cause"], finding["ranks"]) == ("peer-gone", "killed", [2])


def wait_for_training(launcher: int, folder: Path) -> int:
    """Wait until the ranks are in their loop; return the process of the last rank."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        for process in psutil.Process(launcher).children(recursive=True):
            try:
                environment = process.environ()
                is_rank = environment.get("RANK") == "2" and str(TRAIN) in " ".join(process.cmdline())
                if is_rank and process.cpu_times().user > 4 and process.num_threads() > 2:
                    return int(process.pid)
            except psutil.Error:
                continue
        time.sleep(0.1)
    raise AssertionError("the ranks have not come to their loop")


def test_a_full_disk_is_an_error_on_all_ranks_and_the_last_checkpoint_stays_whole(tmp_path: Path) -> None:
    small = (str(TRAIN), "--users", "60", "--checkpoint", "state.pt", "--save-every", "3")
    run(*paceline("run", "-n", "2", *small, "--steps", "3"), folder=tmp_path)
    before = (tmp_path / "state.pt").read_bytes()
    # files may not grow beyond what a checkpoint needs: as on a full disk, the write fails half way
    limited = (
        f"ulimit -f {len(before) // 2048}; exec {sys.executable} -m paceline.launch.local_ranks 2 {sys.executable} "
    )
    done = subprocess.run(
        ["bash", "-c", limited + " ".join(small)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.count("OneRankError: rank 0 failed: ") == 2, done.stderr
    assert (tmp_path / "state.pt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("state")] == ["state.pt"]
    torch.load(tmp_path / "state.pt", weights_only=True)


def test_packs_are_trained_on_any_number_of_ranks() -> None:
    alone = run(sys.executable, "packed.py")
    together = run(*paceline("run", "-n", "2", "packed.py"))
    tokens = re.search(r"\d+ tokens, mean loss", alone)
    assert tokens is not None, alone
    assert tokens.group() in together
