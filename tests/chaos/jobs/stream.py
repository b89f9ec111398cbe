"""A pass over shards in files, of which one may be cut off; it counts how often it has met each sample."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.chaos.injector import reach

from paceline import connect
from paceline.loader import ShardStream, StreamLoader

NUM_SHARDS, SHARD_SAMPLES = 8, 9
_loaded = 0


def write_shards(folder: Path) -> None:
    """Write the numbers of each shard as words of eight bytes, after how many they are."""
    folder.mkdir()
    for shard in range(NUM_SHARDS):
        numbers = [SHARD_SAMPLES, *range(shard * SHARD_SAMPLES, (shard + 1) * SHARD_SAMPLES)]
        (folder / f"{shard}.bin").write_bytes(b"".join(number.to_bytes(8, "little") for number in numbers))


def read(path: str) -> Iterator[dict[str, Any]]:
    """Yield the samples of a shard."""
    global _loaded  # noqa: PLW0603
    content = Path(path).read_bytes()
    for place in range(1, 1 + int.from_bytes(content[:8], "little")):
        _loaded += 1
        word = content[8 * place : 8 * place + 8]
        reach("loading a sample", _loaded, sample=int.from_bytes(word, "little"))
        if len(word) != 8:
            raise EOFError(f"{path} is cut off")
        yield {"index": int.from_bytes(word, "little")}


def main(shards: Path, result: Path, *, num_workers: int) -> None:
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    comm = connect()
    rank = comm.rank
    seen = torch.zeros(NUM_SHARDS * SHARD_SAMPLES, dtype=torch.int64)
    stream = ShardStream(sorted(map(str, shards.glob("*.bin"))), read, shuffle=False)
    with StreamLoader(stream, batch_size=2, tail="pad", num_workers=num_workers, comm=comm) as loader:
        for step, batch in enumerate(loader):
            index = batch.real("index")
            seen.scatter_add_(0, index, torch.ones_like(index))  # type: ignore[arg-type]
            reach("between calls", step)
            comm.all_reduce(torch.ones(1))
    seen = comm.all_reduce(seen)
    if comm.rank == 0:
        result.write_text(json.dumps({"seen": seen.tolist()}))
    if dist.is_initialized():
        dist.destroy_process_group()
    print("rank", rank, "ends well", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), num_workers=int(sys.argv[3]))
