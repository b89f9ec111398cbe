"""A file that was asked for and cannot be written is one sentence, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.recorded import Job

from paceline.cli import main
from paceline.cli.verb_io import write_output


def test_a_page_that_does_not_fit_on_the_disk_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path / "run", 2)
    job.together("Barrier")
    job.finish()
    assert main(["report", str(tmp_path / "run"), "-o", "/dev/full"]) == 1
    assert capsys.readouterr().err == "paceline: /dev/full cannot be written: No space left on device\n"


def test_an_output_that_can_be_written_is_written(tmp_path: Path) -> None:
    assert write_output(tmp_path / "page.html", "<p>ü")
    assert (tmp_path / "page.html").read_text("utf-8") == "<p>ü"
    assert not write_output(tmp_path / "nowhere" / "page.html", "")


@pytest.mark.parametrize("text", ["\x1b[2Jx", "a\u202eb"])
def test_control_characters_of_what_was_given_are_spelled_out(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "show", "small", f"reader.batch_size={text}"]) == 2
    told = capsys.readouterr().err
    assert text not in told
    assert told.startswith("paceline bench: ")
