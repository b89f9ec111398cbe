"""Ranks start programs of their own, Python ones too, and one that fails."""
# ranks: 2

import os
import subprocess
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
clean = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "OMPI", "PMIX", "MPI"))}
told = subprocess.run([sys.executable, "-c", f"print({comm.rank} + 1)"], capture_output=True, text=True, check=True)
failed = subprocess.run([sys.executable, "-c", "raise SystemExit(5)"], check=False)
shell = subprocess.run("exit 3", shell=True, check=False, env=clean)
print("rank", comm.rank, told.stdout.strip(), failed.returncode, shell.returncode)
print("rank", comm.rank, comm.gather(told.returncode, root=0))
