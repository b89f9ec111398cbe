"""Training that counts how often it has met each sample, saves every third step and can be resumed.

Sums are whole numbers, so weights do not depend on who adds up what first.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.chaos.injector import reach
from tests.chaos.scenarios import SAVE_EVERY

reach("import")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from paceline import Batch, Comm, Loader, connect  # noqa: E402
from paceline.loader import save_whole  # noqa: E402

NUM_SAMPLES, EPOCHS = 61, 2


class Numbers:
    """Samples of different lengths."""

    def __init__(self) -> None:
        self.num_loaded = 0

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.num_loaded += 1
        reach("loading a sample", self.num_loaded, sample=index)
        return {"index": index, "words": list(range(1 + index * index % 17))}


def cost(batch: Batch) -> Any:
    return batch["words"].lengths  # type: ignore[union-attr]


def digest(state: dict[str, Any]) -> str:
    """Return a text that tells whether a state is whole."""
    numbers = (state["steps"], state["seen"].tolist(), state["weights"].tolist(), str(state["loader"]))
    return hashlib.sha256(repr(numbers).encode()).hexdigest()


def save(comm: Comm, state: dict[str, Any], path: Path) -> None:
    reach("in a save", state["steps"])
    save_whole(comm, {**state, "digest": digest(state)}, path)


def main(checkpoint: Path, result: Path, *, is_balanced: bool, num_workers: int) -> None:
    torch.set_num_threads(1)
    reach("init")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    comm = connect()
    rank = comm.rank
    seen, weights, steps = torch.zeros(NUM_SAMPLES, dtype=torch.int64), torch.zeros(3, dtype=torch.float64), 0
    settings: dict[str, Any] = {"cost": cost} if is_balanced else {}
    with Loader(
        Numbers(),
        batch_size=4,
        seed=3,
        jagged=["words"],
        num_workers=num_workers,
        comm=comm,
        progress=False,
        **settings,
    ) as loader:
        if checkpoint.exists():
            state = torch.load(checkpoint, weights_only=True)
            assert state.pop("digest") == digest(state), "the checkpoint is not whole"
            seen, weights, steps = state["seen"], state["weights"], state["steps"]
            loader.load_state_dict(state["loader"])
        for epoch in range(loader.epoch, EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                index = batch.real("index")
                mine = torch.zeros(NUM_SAMPLES, dtype=torch.int64)
                mine.scatter_add_(0, index, torch.ones_like(index))  # type: ignore[arg-type]
                reach("between calls", steps)
                reach("inside a collective", steps)
                together = comm.all_reduce(mine)
                seen += together
                total = (together * torch.arange(NUM_SAMPLES)).sum()
                weights = (weights * 3 + total * torch.arange(1, 4)) % 65_521
                steps += 1
                if steps % SAVE_EVERY == 0:
                    save(
                        comm,
                        {"seen": seen, "weights": weights, "steps": steps, "loader": loader.state_dict()},
                        checkpoint,
                    )
    if comm.rank == 0:
        result.write_text(json.dumps({"seen": seen.tolist(), "weights": weights.tolist()}))
    if dist.is_initialized():
        dist.destroy_process_group()
    print("rank", rank, "ends well", flush=True)
    reach("in finalize")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), is_balanced=sys.argv[3] == "True", num_workers=int(sys.argv[4]))
