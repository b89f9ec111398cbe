"""What the live view costs: the same job under `paceline run` on a terminal, with and without --live, alternating.

The ranks poll, so if there is only one core per rank, all the time that the view takes is taken from them: the worst
case. A round runs each mode once, in an order that alternates, and gives a ratio; the figure is the median of these. If
rounds differ by more than the effect, no verdict is given. The processor time of our own process is measured too, and
the time for a view of 1,024 ranks, from rings that were written without ranks. Goals: steps of the
job within 2 per cent, the view below 2 per cent of a core, and below 5 per cent for 1,024 ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.guard.observe.gauges import Gauges
from paceline.guard.observe.local_rings import LocalRings
from paceline.launch.local_ranks import local_command
from paceline.process.procfs import processor_seconds
from paceline.report.live.live_view import live_lines
from record import write_record

SEED = 0
HERE = Path(__file__).parent
STEP_LIMIT, VIEW_LIMIT, MANY_LIMIT = 1.02, 0.02, 0.05
MANY = 1024
START_SECONDS = 2.0  # our own processor time counts from here on: importing is the same in every mode


def run(ranks: int, *, live: bool) -> dict[str, float]:
    """Run the job once on a terminal; return its figures, and the share of a core that our own process took."""
    command = local_command(ranks, "mpi", [str(HERE / "workers" / "mpi_steps.py")])
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "run", *(["--live"] if live else []), "--", *command],
        stdin=slave, stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"},
        start_new_session=True, preexec_fn=lambda: os.close(os.open(os.ttyname(slave), os.O_RDWR)),  # noqa: PLW1509
    )  # fmt: skip
    os.close(slave)
    os.set_blocking(master, False)
    spent, painted = [(began, 0.0)], 0
    while process.poll() is None:
        seconds = processor_seconds(process.pid)
        if seconds > 0:
            spent.append((time.monotonic(), seconds))
        with suppress(OSError):  # nothing was written since, or the terminal is closed
            painted += len(os.read(master, 1 << 16))
        time.sleep(0.02)
    os.close(master)
    assert process.stdout is not None
    with process.stdout as output:
        lines = [line for line in output.read().decode().splitlines() if line.startswith("{")]
    if process.returncode != 0 or not lines:
        raise SystemExit(f"the job failed with code {process.returncode}")
    if live != (painted > 1000):
        raise SystemExit("the view was not on the terminal when it should have been, or was when not")
    figures: dict[str, float] = json.loads(lines[-1])
    started = next(pair for pair in spent if pair[0] - began > START_SECONDS)
    return figures | {"our share of a core": (spent[-1][1] - started[1]) / (spent[-1][0] - started[0])}


def picture_seconds() -> dict[str, float]:
    """Return the time for a sample and a picture of many ranks."""
    sys.path.insert(0, str(HERE.parent))
    from tests.helpers.fake_rings import write_rings

    with tempfile.TemporaryDirectory() as folder:
        write_rings(Path(folder), MANY, calls=20, late=513, inside=True)
        rings = LocalRings(Path(folder))
        gauges = Gauges()
        samples, pictures = [], []
        for _ in range(20):
            begin = time.process_time()
            gauges._sampled = 0.0
            gauges.sample(rings.jobs())
            middle = time.process_time()
            live_lines(gauges.views(rings.jobs()), columns=120, rows=20)
            samples.append(middle - begin)
            pictures.append(time.process_time() - middle)
        rings.close()
    return {"sample ms": 1e3 * statistics.median(samples), "picture ms": 1e3 * statistics.mean(pictures)}


def _verdict(said: str, values: list[float], limit: float, margin: float) -> str:
    """Say whether a goal is reached, or that the rounds differ by more than the effect."""
    low, middle, high = statistics.quantiles(values, n=4)
    text = f"{said}: {middle:.3f}, half of the rounds between {low:.3f} and {high:.3f}"
    if high - low > 2 * margin:
        return f"  UNDECIDED {text} (goal {limit:g}): too much else runs here"
    return _line(middle <= limit, text, f"{limit:g}")


def _line(held: bool, said: str, goal: str) -> str:
    return f"  {'reached' if held else 'MISSED '}  {said} (goal {goal})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for number in range(options.rounds):
        for live in (False, True) if number % 2 == 0 else (True, False):
            found[live].append(run(options.ranks, live=live))
    calls: dict[str, Any] = {}
    for name in found[False][0]:
        plain, shown = ([figures[name] for figures in found[live]] for live in (False, True))
        ratios = [more / less for less, more in zip(plain, shown, strict=True)]
        calls[name] = {
            "plain": statistics.median(plain), "live": statistics.median(shown),
            "added": statistics.median(more - less for less, more in zip(plain, shown, strict=True)),
            "differences": [more - less for less, more in zip(plain, shown, strict=True)],
            "ratio": statistics.median(ratios), "ratio of the least": min(shown) / min(plain), "ratios": ratios,
        }  # fmt: skip
        row = calls[name]
        print(f"{name:22} plain {row['plain']:9.3f}  live {row['live']:9.3f}  ratio {row['ratio']:.3f}", end="")
        print(f"  of the least {row['ratio of the least']:.3f}")
    many = picture_seconds()
    # as often as the view takes them: a sample every 0.2 ms and a picture every 4 ms, for each rank
    many["share of a core"] = many["sample ms"] / (0.2 * MANY) + many["picture ms"] / (4.0 * MANY)
    print(f"{MANY} ranks: a sample {many['sample ms']:.1f} ms, a picture {many['picture ms']:.1f} ms", end="")
    print(f", together {100 * many['share of a core']:.1f} % of a core")
    print(_verdict("a step takes, times as long", calls["step us"]["ratios"], STEP_LIMIT, STEP_LIMIT - 1))
    print(_verdict("the view takes, of a core", calls["our share of a core"]["differences"], VIEW_LIMIT, VIEW_LIMIT))
    share = many["share of a core"]
    print(_line(share < MANY_LIMIT, f"{MANY} ranks take {100 * share:.1f} % of a core", f"{100 * MANY_LIMIT:g} %"))
    write_record("live", {"calls": calls, "many": many}, packages=["mpi4py", "mpich", "rich"], seed=SEED)


if __name__ == "__main__":
    main()
