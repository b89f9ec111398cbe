"""`paceline doctor`: examines from outside a hanging job that was not started under the guard."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import ExamplesFormatter, check_positive, check_writable, write_output
from paceline.process.exit_codes import FINDING_CODE

if TYPE_CHECKING:
    from paceline.doctor.observed_job import Diagnosis

_FAILED = 1
_EPILOG = """\
examples:
  paceline doctor 4711                    a launcher (torchrun, mpiexec, a script), or one rank, or several
  paceline doctor --user                  all your ranks on this machine
  paceline doctor 4711 --flight-recorder /tmp/dumps
"""


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "doctor",
        help="examine a hanging job that was not started under the guard",
        description="Takes the stacks of all ranks twice with py-spy and reports where each rank is, in which "
        "collective, and what that does and does not prove. Each look pauses the ranks for some tens of milliseconds. "
        "The exit code is 90 if ranks are in different collectives or one has exited or is exiting, 0 if nothing "
        "is provably out of line.",
        epilog=_EPILOG,
        formatter_class=ExamplesFormatter,
    )
    parser.add_argument("pids", nargs="*", metavar="PID", help="process id of a rank or a launcher")
    parser.add_argument("--user", action="store_true", help="all ranks of this user on this machine")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="seconds between the two looks (default: 2)"
    )
    parser.add_argument(
        "--flight-recorder", metavar="DIR", help="read the dumps of torch's Flight Recorder, one file per rank"
    )
    parser.add_argument("--nccl-ras", metavar="FILE", help="read what `ncclras -f json` has printed")
    parser.add_argument(
        "--json", metavar="FILE", dest="json_file", help="write the result to FILE as JSON, with all stacks"
    )
    parser.add_argument(
        "-o", "--output", metavar="PAGE", type=Path, help="also write an HTML page, if there is one job"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look at the job; print the result; return the exit code."""
    from paceline.doctor.conclude import conclude
    from paceline.doctor.flight import read_flight_records
    from paceline.doctor.look import look_at_jobs
    from paceline.doctor.nccl_ras import read_nccl_ras
    from paceline.errors import InputError
    from paceline.process.native_stacks import find_py_spy
    from paceline.report.text.doctor_text import diagnosis_as_text, doctor_as_json, flight_as_text, ras_as_text
    from paceline.report.text.text_layout import layout_for

    pids = [_pid(text) for text in options.pids]
    if not pids and not options.user and options.flight_recorder is None and options.nccl_ras is None:
        raise InputError("give process ids, or --user, or --flight-recorder DIR, or --nccl-ras FILE")
    check_positive("--seconds", options.seconds)
    check_writable(options.json_file, options.output)
    record = read_flight_records(Path(options.flight_recorder)) if options.flight_recorder is not None else None
    ras = read_nccl_ras(Path(options.nccl_ras)) if options.nccl_ras is not None else None
    jobs = []
    if pids or options.user:
        user = os.getuid() if options.user else None
        jobs = look_at_jobs(find_py_spy(), pids, user=user, seconds=options.seconds)
    diagnoses = [conclude(job) for job in jobs]
    has_finding = any(diagnosis.finding is not None for diagnosis in diagnoses) or (
        record is not None and record.mismatch is not None
    )
    code = FINDING_CODE if has_finding else 0
    layout = layout_for(sys.stdout)
    texts = [diagnosis_as_text(diagnosis, layout) for diagnosis in diagnoses]
    texts += [flight_as_text(record, layout)] if record is not None else []
    texts += [ras_as_text(ras, layout)] if ras is not None else []
    print("\n\n".join(texts))
    if options.json_file:
        outcome = doctor_as_json(code, diagnoses, record, ras)
        if not write_output(Path(options.json_file), json.dumps(outcome, indent=2) + "\n"):
            return code or _FAILED
        print(f"written: {options.json_file}")
    if options.output is not None and not _write_page(diagnoses, options.output):
        return code or _FAILED
    return code


def _write_page(diagnoses: Sequence[Diagnosis], path: Path) -> bool:
    from paceline.errors import InputError
    from paceline.report.page.doctor_page import page_of_diagnosis
    from paceline.report.page.render import render_page

    if len(diagnoses) != 1:
        raise InputError(f"a page shows one job, but {len(diagnoses)} were found: give the process id of one launcher")
    if not write_output(path, render_page(page_of_diagnosis(diagnoses[0]))):
        return False
    print(f"written: {path} (open it in a browser)")
    return True


def _pid(text: str) -> int:
    from paceline.errors import InputError

    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise InputError(f"{text!r} is not a process id")
    return int(text)
