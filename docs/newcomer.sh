#!/usr/bin/env bash
# README's commands from top to bottom, as somebody new types them: a copy of what is committed, a fresh environment,
# nothing cached. `bash docs/newcomer.sh --in DIR` takes the environment in DIR instead of making one.
#
# README speaks of a train.py and of a job that hangs, as PID; both are provided here. A command may end well, or with 90,
# which is how a finding ends. Anything else is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
place=$(mktemp -d)
hanging=
leave() {
    if [[ -n $hanging ]]; then
        kill "$hanging" 2> /dev/null || true
        wait "$hanging" 2> /dev/null || true
    fi
    rm -rf "$place"
}
trap leave EXIT

git archive HEAD | tar -x -C "$place"
cd "$place"
if [[ ${1:-} == --in ]]; then
    environment=$(cd "$root" && cd "$2" && pwd)
    installs=no
else
    environment=$place/.venv
    "${PYTHON:-python3}" -m venv "$environment"
    installs=yes
fi
export PATH=$environment/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 OMP_NUM_THREADS=1

# what users have: a correct script, for torchrun and for mpiexec
cat > train.py <<'SCRIPT'
import os

if "MASTER_ADDR" in os.environ:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for step in range(3):
        dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
else:
    from mpi4py import MPI

    for step in range(3):
        MPI.COMM_WORLD.allreduce(1)
SCRIPT
# and a job that hangs, for the doctor
cat > hanging.py <<'SCRIPT'
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    open("met", "w").close()
    dist.recv(torch.ones(1), src=1)
dist.barrier()
SCRIPT

# README's commands: the lines of its blocks that are neither Python nor output, and whole commands within a sentence
commands() {
    python - README.md <<'READER'
import re, sys

text = open(sys.argv[1]).read()
found = re.finditer(r"^```(\w*)\n(.*?)^```|`(paceline (?:bench|doctor|explain|report) [^`]+)`", text, re.DOTALL | re.MULTILINE)
for language, block, inline in (match.groups() for match in found):
    if inline:
        print(" ".join(inline.split()))
    for line in block.splitlines() if language in ("", "console", "bash", "sh") else ():
        typed = line[2:] if line.startswith("$ ") else "" if language == "console" else line
        if re.match(r"(paceline|pip|python|make|git|cd|\.) ", typed):
            print(typed)
READER
}

run() {
    echo
    echo "\$ $1"
    local code=0
    eval "$1" < /dev/null || code=$?
    if [[ $code != 0 && $code != 90 ]]; then
        echo "newcomer: README's command ended with code $code: $1" >&2
        exit 1
    fi
}

if [[ $installs == yes ]]; then
    # README's extras, and an MPI and a launcher to start ranks with
    run "pip install --quiet '.[torch,mpi,bench,doctor]' mpich"
fi
count=0
while IFS= read -r command <&3; do
    case $command in
        pip\ install* | .\ * | git\ clone* | cd\ *) continue ;; # done above
        *\ PID*)
            torchrun --nproc-per-node 2 hanging.py > /dev/null 2>&1 &
            hanging=$!
            for _ in $(seq 240); do # until its ranks have met; the doctor says so if they have not
                [[ -e met ]] && break
                sleep 0.5
            done
            command=${command//PID/$hanging}
            ;;
    esac
    run "$command"
    count=$((count + 1))
done 3< <(commands)
echo
echo "newcomer: $count commands of README ran"
((count >= 10)) # fewer, and README has changed so that its commands are not read any more
