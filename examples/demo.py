"""What `make demo` shows: the classic bug, how it is found before a job runs, and the plan that has none of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOADERS = Path(__file__).parent / "loaders.py"
SHOWS = (
    ("100 samples, 7 ranks, batch 3: what becomes of the remainder?", "plan --samples 100 --ranks 7 --batch 3", 0),
    ("The classic bug, found without starting a job:", f"check {LOADERS.name}:clamped --ranks 7", 90),
    ("The same bug in a running job, which would hang:", "run -n 7 classic.py", 90),
    ("torch's sampler has equal steps, but repeats:", f"check {LOADERS.name}:torch_sampler --ranks 7", 0),
    ("The plan, each sample exactly once:", f"check {LOADERS.name}:planned --ranks 7 --exactly-once", 0),
)


def main() -> int:
    """Run each command as a user would; a command that does not end as it should fails the demo."""
    for title, arguments, expected in SHOWS:
        print(f"\n# {title}\n$ paceline {arguments}", flush=True)
        done = subprocess.run([sys.executable, "-m", "paceline", *arguments.split()], cwd=LOADERS.parent, check=False)
        if done.returncode != expected:
            print(f"this should have ended with exit code {expected}, not {done.returncode}", file=sys.stderr)
            return 1
        print(f"(exit code {done.returncode})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
