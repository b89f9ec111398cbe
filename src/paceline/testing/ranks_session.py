"""What every rank of a test runs: a session of pytest with this one test, whose reports go to a file.

`python -m paceline.testing.ranks_session FOLDER`
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paceline.process.launchers import launched_rank
from paceline.process.whole_files import write_whole
from paceline.testing.ranks_mark import OF_SESSION, SessionFiles

if TYPE_CHECKING:
    from paceline.comm import Comm


class ReportWriter:
    """Keeps the reports of this rank, and writes them when the session ends."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep one report: of the setup, the call or the end of the test."""
        self._keep(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why the test cannot be found, if it cannot."""
        if report.failed:
            self._keep(report)

    def _keep(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        # at once: if the others wait for this rank in vain, the guard ends it before its session does
        self._reports.append(data)
        write_whole(self._path, json.dumps(self._reports).encode())


def main(folder: Path) -> int:
    """Run the test that the folder asks for, as this rank; return pytest's exit code."""
    files = SessionFiles(folder=folder)
    asked = json.loads(files.asked.read_text())
    launched = launched_rank(os.environ)
    assert launched is not None  # ranks are started by a launcher of ours, or by mpiexec
    os.environ[OF_SESSION] = str(folder)
    asked["options"]["basetemp"] = str(files.temporary(launched.rank))
    sys.path[:0] = [path for path in asked["path"] if path not in sys.path]
    config = pytest.Config.fromdictargs(asked["options"], [asked["test"]])
    config.pluginmanager.register(ReportWriter(config, files.reports(launched.rank)))
    return int(config.hook.pytest_cmdline_main(config=config))


@contextmanager
def connected_ranks() -> Iterator[Comm]:
    """Connect this rank with the others, and leave nothing of that behind."""
    from paceline.comm import connect

    launched = launched_rank(os.environ)
    if launched is not None and launched.launcher.is_mpi:
        yield connect("mpi")
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield connect("torch")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
