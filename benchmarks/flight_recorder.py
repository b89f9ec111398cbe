"""How long the doctor takes to read the Flight Recorder's dumps of a large job, one of whose ranks calls otherwise.

The dumps are made here, in torch's format 2.10. Goal: 2,048 ranks with 500 calls each in less than 5 seconds.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

from paceline.doctor.flight import read_flight_records
from record import write_record

SEED = 0
LIMIT_SECONDS = 5.0


def write_dumps(folder: Path, num_ranks: int, num_calls: int, odd: int) -> int:
    """Write a dump for each rank; return their bytes."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(num_ranks)))}}
    status = {"0": {"last_enqueued_collective": num_calls, "last_completed_collective": num_calls - 1}}
    num_bytes = 0
    for rank in range(num_ranks):
        entries = [_entry(call, is_last=call == num_calls, is_odd=rank == odd) for call in range(1, num_calls + 1)]
        dump = {"version": "2.10", "entries": entries, "pg_config": config, "pg_status": status}
        num_bytes += (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump))
    return num_bytes


def _entry(call: int, *, is_last: bool, is_odd: bool) -> dict[str, Any]:
    operation, line = ("broadcast", 61) if is_last and is_odd else ("all_reduce", 88)
    frames = [{"name": "train", "filename": "/home/me/train.py", "line": line},
              {"name": "main", "filename": "/home/me/train.py", "line": 140}]  # fmt: skip
    return {
        "frames": frames, "record_id": call, "pg_id": 0, "process_group": ("0", "default_pg"),
        "collective_seq_id": call, "p2p_seq_id": 0, "op_id": call, "profiling_name": f"nccl:{operation}",
        "time_created_ns": 10**18 + call, "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
        "output_dtypes": ["Float"], "state": "scheduled" if is_last else "completed", "retired": not is_last,
        "timeout_ms": 600_000, "is_p2p": False,
    }  # fmt: skip


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2048)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--record", action="store_true", help="keep the figures in benchmarks/results")
    options = parser.parse_args()
    odd = options.ranks * 3 // 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        num_bytes = write_dumps(folder, options.ranks, options.calls, odd)
        began, cpu = time.perf_counter(), time.process_time()
        found = read_flight_records(folder)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    assert found.odd_ranks == (odd,), found.mismatch
    figures = {
        "ranks": options.ranks, "calls": options.calls, "megabytes": num_bytes / 1e6, "seconds": seconds,
        "processor_seconds": cpu_seconds, "limit_seconds": LIMIT_SECONDS,
    }  # fmt: skip
    print("\n".join(f"{name:20} {value:,.2f}" for name, value in figures.items()))
    if options.record:
        write_record("flight_recorder", figures, packages=["paceline"], seed=SEED)


if __name__ == "__main__":
    main()
