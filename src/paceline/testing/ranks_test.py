"""Runs one test on ranks under the guard, in processes of their own, and says in this session what became of it.

A finding is the failure of the test. Otherwise the test fails if it fails on any rank, and is skipped if all ranks
skip it.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import InputError, name_ranks, whole_number
from paceline.guard.run.diagnosis_file import DIAGNOSIS
from paceline.guard.run.kept_records import DEFAULT_FOLDER
from paceline.guard.run.watch_options import WatchOptions, run_command
from paceline.guard.verdict.finding_json import finding_from_json
from paceline.launch.local_ranks import SAVE_SECONDS, carrier_of_script, local_command
from paceline.process.foreign_files import read_json
from paceline.process.own_programs import own_module
from paceline.report.text.finding_text import finding_as_text, records_as_text
from paceline.testing.rank_verdict import RankReports, verdict_of
from paceline.testing.ranks_mark import OF_SESSION, SessionFiles, is_plain

_CARRIERS = ("torch", "mpi")
# what ranks must not do by themselves: start further processes, ask at a terminal, or write where this session writes
_OF_THIS_SESSION: dict[str, Any] = {
    "numprocesses": None, "maxprocesses": None, "dist": "no", "distload": False, "tx": [], "looponfail": False,
    "usepdb": False, "trace": False, "xmlpath": None, "pastebin": None, "report_log": None,
    "lf": False, "failedfirst": False, "newfirst": False, "stepwise": False, "cacheclear": False,
    "keyword": "", "markexpr": "", "deselect": None, "ignore": None, "ignore_glob": None, "collectonly": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksAsked:
    """What a mark asks for.

    Attributes:
        num_ranks: How many ranks.
        carrier: `torch` or `mpi`.
        timeout: End the test when a rank has waited for this time; None: no limit of ours.
    """

    num_ranks: int
    carrier: str
    timeout: float | None = None


def read_mark(mark: pytest.Mark, path: Path) -> RanksAsked:
    """Read the arguments of the mark of a test in this file."""

    def ranks(n: int, *, carrier: str | None = None, timeout: float | None = None) -> RanksAsked:
        if carrier not in (None, *_CARRIERS):
            raise InputError(f"carrier must be one of {', '.join(_CARRIERS)}, got {carrier!r}")
        count, limit = whole_number("n", n, least=1), None if timeout is None else float(timeout)
        return RanksAsked(num_ranks=count, carrier=carrier or carrier_of_script(path), timeout=limit)

    try:
        return ranks(*mark.args, **mark.kwargs)
    except TypeError as error:  # as Python words it for any function
        raise InputError(str(error)) from None


def run_on_ranks(item: pytest.Item, mark: pytest.Mark) -> None:
    """Run the test; raise what pytest expects of a test that fails or is skipped."""
    try:
        asked = read_mark(mark, item.path)
        command = local_command(asked.num_ranks, asked.carrier, [*own_module("paceline.testing.ranks_session"), "-"])
    except InputError as error:
        pytest.fail(f"@pytest.mark.{mark.name}: {error}", pytrace=False)
    with _session_files(item) as files:
        watched = run_command(
            [*command[:-1], str(files.folder)],
            WatchOptions(json_file=files.diagnosis, timeout_seconds=asked.timeout),
        )
        code = _run(watched, files.output)
        reports = [_reports(item.config, files, rank) for rank in range(asked.num_ranks)]
        _add_sections(item, reports)
        verdict_of(
            reports,
            finding=_finding_text(files.diagnosis),
            rest=f"paceline run ended with code {code}, and wrote:\n{files.output.read_text(errors='replace')}",
            code=code,
        )


@contextmanager
def _session_files(item: pytest.Item) -> Iterator[SessionFiles]:
    files = SessionFiles(folder=Path(tempfile.mkdtemp(prefix="paceline-")))  # readable by this user only
    try:
        files.asked.write_text(json.dumps(_asked(item)))
        yield files
    finally:
        shutil.rmtree(files.folder, ignore_errors=True)


def _asked(item: pytest.Item) -> Mapping[str, Any]:
    """Return what a rank must know to run the test as this session would."""
    config = item.config
    options = {name: value for name, value in vars(config.option).items() if is_plain(value)}
    options |= {name: value for name, value in _OF_THIS_SESSION.items() if name in options}
    options["plugins"] = [*options.get("plugins", []), "no:terminal", "no:cacheprovider"]
    options["rootdir"] = str(config.rootpath)
    if config.inipath is not None:
        options["inifilename"] = str(config.inipath)
    test = f"{item.path}::{item.nodeid.partition('::')[2]}"  # node ids start at the root, and we may be elsewhere
    return {"options": options, "test": test, "path": [path for path in sys.path if path]}


def _run(command: list[str], output: Path) -> int:
    """Run the guard to its end; end it, and with it the ranks, if this session is interrupted."""
    environment = {**os.environ, OF_SESSION: str(output.parent)}
    with output.open("wb") as log, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
    ) as process:  # fmt: skip
        try:
            return process.wait()
        except BaseException:  # Ctrl-C, or a plugin that limits the time of a test
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(SAVE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def _finding_text(diagnosis: Path) -> str:
    """Return what the guard has found, and where its records are; empty if it has found nothing."""
    if not diagnosis.exists() or not diagnosis.stat().st_size:
        return ""  # it did not come so far
    finding = read_json(diagnosis)["finding"]
    if finding is None:
        return ""
    text = finding_as_text(finding_from_json(finding))
    kept = [path.parent for path in DEFAULT_FOLDER.glob(f"*/{DIAGNOSIS}") if filecmp.cmp(path, diagnosis)]
    return f"{text}\n{records_as_text(max(kept))}" if kept else text  # they are named by their time


def _reports(config: pytest.Config, files: SessionFiles, rank: int) -> RankReports:
    path = files.reports(rank)
    data = json.loads(path.read_text()) if path.exists() else []
    restored = [config.hook.pytest_report_from_serializable(config=config, data=one) for one in data]
    return RankReports(rank=rank, reports=tuple(restored))


def _add_sections(item: pytest.Item, reports: list[RankReports]) -> None:
    """Show what each rank has printed; ranks that printed the same share a section."""
    ranks_by_text: dict[tuple[str, str], list[int]] = {}
    for of_rank in reports:
        for title, text in of_rank.reports[-1].sections if of_rank.reports else ():  # the last has those of all
            ranks_by_text.setdefault((title, text), []).append(of_rank.rank)
    for (title, text), ranks in ranks_by_text.items():
        stream, _, when = title.removeprefix("Captured ").rpartition(" ")
        item.add_report_section(when, f"{stream} of {name_ranks(ranks)}", text)
