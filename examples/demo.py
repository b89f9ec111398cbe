"""What `make demo` shows: a model trained on four ranks under the guard, then the same job with the classic bug."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
SHOWS = (
    ("A ranking model on 4 ranks: even work, a padded tail, every sample evaluated exactly once.", "", 0),
    ("The same job with the sampler that most people write first: one rank gets fewer batches.", " --broken", 90),
)


def main() -> int:
    """Run each command as a user would; a command that does not end as it should fails the demo."""
    parser = argparse.ArgumentParser(description="Run a job on four ranks, then the same job broken.")
    parser.add_argument("--users", help="number of users to generate; fewer are faster")
    users = parser.parse_args().users
    for title, options, expected in SHOWS:
        arguments = f"run -n 4 ranking/train.py{options}" + (f" --users {users}" if users else "")
        print(f"\n# {title}\n$ paceline {arguments}", flush=True)
        done = subprocess.run([sys.executable, "-m", "paceline", *arguments.split()], cwd=FOLDER, check=False)
        if done.returncode != expected:
            print(f"expected exit code {expected}, got {done.returncode}", file=sys.stderr)
            return 1
        print(f"(exit code {done.returncode})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
