"""Makes docs/breaks.md of the cases and of what was measured: `python docs/write_breaks.py RECORD DOCUMENT`."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from paceline.lab.case import Case, all_cases
from paceline.lab.verdicts import finding_in_words

Figures = Mapping[str, Mapping[str, Any]]

_LIBRARIES = {"mpich": "MPICH", "openmpi": "Open MPI", "gloo": "gloo", "gloo with DETAIL": "gloo, DETAIL"}
_INTRO = """\
<!-- made by `python docs/write_breaks.py benchmarks/results/lab.json docs/breaks.md`; do not edit -->
# Ways to break a distributed job

Each break below is a job of some twenty lines that fails as real ones do: with real ranks, on mpi4py or
torch.distributed. `paceline lab` runs them:

```
paceline lab list                          all cases, by concept
paceline lab show ID                       symptom and code
paceline lab hint ID [1-3]                 from vague to telling
paceline lab run ID [--bare | --fixed]     under the guard; as it really behaves; repaired
paceline lab solve ID                      a copy for you to repair
paceline lab check FILE                    does the repair hold? same result on every rank, no finding
paceline lab check [ID...]                 does each case do what it states: bare, under the guard, repaired
```

Exit codes: 0 all is well, 90 the guard has a finding or a check does not hold, 2 wrong usage. A bare job counts as
hanging when for three seconds, or longer on a slow machine, no rank has printed, ended, or moved to another line.
"""
_TABLE = """\
## What happens, and who says so

What each job does bare, and after how many seconds it ended; then what the guard says. Seconds are from when
every rank has imported torch or started MPI to the end of the job. *hang*: nobody says anything; MPI has no limit,
gloo's is half an hour. *abort*: a library or a rank ended the job with an error. *wrong result*: exit code 0, and wrong
numbers. *DETAIL* is `TORCH_DISTRIBUTED_DEBUG=DETAIL`.
"""


def document(cases: Iterable[Case], record: Mapping[str, Any]) -> str:
    """Return the whole document."""
    listed, figures = list(cases), record["figures"]
    parts = [_INTRO, _index(listed), _TABLE, *_table(listed, figures), "", _measured(record)]
    for concept, group in groupby(listed, key=lambda case: case.concept):
        parts += ["", f"## {concept[0].upper()}{concept[1:]}"]
        for case in group:
            parts += ["", *_section(case, figures[case.id])]
    return "\n".join(parts) + "\n"


def _index(cases: Sequence[Case]) -> str:
    lines = ["## What people search for", ""]
    phrases = sorted((phrase, case.id) for case in cases for phrase in case.search)
    lines += [f"- {phrase}: [{name}](#{name})" for phrase, name in phrases]
    return "\n".join([*lines, ""])


def _table(cases: Sequence[Case], figures: Figures) -> Iterator[str]:
    yield f"| case | {' | '.join(_LIBRARIES.values())} | the guard says | after |"
    yield "|---" * (len(_LIBRARIES) + 3) + "|"
    for case in cases:
        found = figures[case.id]
        cells = [_bare_cell(found[library]) if library in found else "" for library in _LIBRARIES]
        guards = {name: found[f"guard on {name}"] for name in _LIBRARIES if f"guard on {name}" in found}
        after = ", ".join(f"{told['seconds']} s" for told in guards.values())
        yield f"| [{case.id}](#{case.id}) | {' | '.join(cells)} | {_guard_cell(case, guards)} | {after} |"


def _bare_cell(found: Mapping[str, Any]) -> str:
    if found["ending"] == "hang":
        return "hang"
    return f"{found['ending']}, {found['seconds']} s"


def _guard_cell(case: Case, guards: Mapping[str, Any]) -> str:
    if case.expected.late:
        return "no finding; shows who is late"
    if case.is_silent:
        return "nothing: no call is wrong; see below"
    said = {finding_in_words(told["finding"]) if told["finding"] else "no finding" for told in guards.values()}
    return " or ".join(sorted(said))


def _measured(record: Mapping[str, Any]) -> str:
    tools = ("mpich", "openmpi", "gloo")
    told = [found[f"guard on {tool}"] for found in record["figures"].values() for tool in tools if tool in found]
    times = [found["finding"]["latency_ms"] for found in told if found["finding"]]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"Measured by `{record['command']}` on {record['machine']['cores']} cores with other work on them, "
        f"Python {record['python']}, {versions} ([the record](../benchmarks/results/lab.json)).\n"
        f"From the last event that made it certain, the guard's {len(times)} findings took "
        f"{statistics.median(times):.0f} ms in the median and {max(times):.0f} ms at most."
    )


def _section(case: Case, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {case.id}"
    yield f"\n**{case.title}** ({case.carrier}, {case.num_ranks} ranks)"
    yield f"\n{case.symptom}"
    yield f"\n*How to recognise it.* {case.recognise}"
    yield f"\n*Cause.* {case.cause}"
    yield f"\n```diff\n{case.fix()}\n```"
    yield f"\n{_guard_text(case, found)}"
    yield f"\n*In Paceline.* {case.prevention}"
    if case.has("paceline"):
        yield f"\nThe same job on Paceline:\n\n```python\n{case.program('paceline').read_text().strip()}\n```"


def _guard_text(case: Case, found: Mapping[str, Any]) -> str:
    if case.is_silent:
        seen = "\n".join(found["seen"])
        return (
            f"No call is wrong: the guard has no finding. How it is seen (`seen.py` of the case):\n\n```\n{seen}\n```"
        )
    tool = "gloo" if case.carrier == "torch" else "mpich"
    return f"`paceline lab run {case.id}` says:\n\n```\n{found[f'guard on {tool}']['said'].strip()}\n```"


def main(arguments: Sequence[str]) -> None:
    """Write the document."""
    record, path = Path(arguments[0]), Path(arguments[1])
    path.write_text(document(all_cases(), json.loads(record.read_text())))
    print(f"written: {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
