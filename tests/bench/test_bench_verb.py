"""What the command line says, without ranks."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
from tests.bench import runs

from paceline.cli import main


def test_workloads_are_listed_with_their_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["workload", "format", "files"]
    assert any(line.startswith("unet3d") and "22.9 GiB" in line for line in lines)


def test_overrides_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "show", "small", "reader.batch_size=8", "-n", "3", "--brief", "reader.tail=pad"]) == 0
    assert capsys.readouterr().out.startswith("train: 11 steps of 3 x 8 samples; 256 used, 8 padded")


def test_a_rank_collects_garbage_again_after_its_imports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "worker", "small"]) == 2
    assert "--out is missing" in capsys.readouterr().err
    assert gc.isenabled()
    gc.unfreeze()


def test_what_is_no_override_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "show", "small", "-n", "3", "--nothing"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--samples", "1", "--ranks", "1", "--batch", "1", "more"])
    assert ended.value.code == 2
    assert "unrecognized arguments: more" in capsys.readouterr().err
    assert main(["bench", "show", "small", "-n", "3", "more"]) == 2
    assert "'more' is not an override" in capsys.readouterr().err


def test_show_prints_yaml_that_is_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "show", "cosmoflow", "--scale", "0.001"]) == 0
    shown = capsys.readouterr().out.partition("\ntrain: ")[0]
    (tmp_path / "again.yaml").write_text(shown.replace("storage_options: []", "storage_options: {}"))
    assert main(["bench", "show", str(tmp_path / "again.yaml")]) == 0
    assert capsys.readouterr().out.partition("\ntrain: ")[0] == shown


def test_wrong_runs_are_refused_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.yaml"
    runs.write_yaml(path, dataset={"data_folder": str(tmp_path / "data"), "num_files_train": 20})
    options = ["--out", str(tmp_path / "out"), "--carrier", "torch"]
    for given, said in (
        (["-n", "7", "reader.batch_size=3"], "no step can be made"),
        (["-n", "2"], "does not hold this data set"),
        (["-n", "0"], "-n must be a whole number of at least 1"),
        (["workflow.train=false"], "there is nothing to run"),
    ):
        assert main(["bench", "run", str(path), *options, *given]) == 2
        assert said in capsys.readouterr().err


def test_makers_in_processes_leave_a_whole_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.yaml"
    data = {"data_folder": str(tmp_path / "data"), "num_files_train": 7, "record_length_bytes": 100, "format": "raw"}
    runs.write_yaml(path, dataset=data)
    assert main(["bench", "generate", str(path), "-n", "3"]) == 0
    assert capsys.readouterr().out.startswith("7 train files, 7 samples, 700 B")
    assert json.loads((tmp_path / "data" / "manifest.json").read_text())["splits"]["train"]["num_bytes"] == 700
    (tmp_path / "data" / "train" / "img_3_of_7.bin").write_bytes(b"")
    assert main(["bench", "generate", str(path), "--verify"]) == 0
    assert (tmp_path / "data" / "train" / "img_3_of_7.bin").stat().st_size == 100


def test_a_maker_that_fails_ends_the_others_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    (tmp_path / "data").write_text("a file where a folder should be")
    runs.write_yaml(path, dataset={"data_folder": str(tmp_path / "data"), "num_files_train": 7})
    done = runs.paceline("bench", "generate", str(path), "-n", "2", cwd=tmp_path)
    assert done.returncode == 1
    assert "paceline bench: rank 0: [Errno 20] Not a directory" in done.stderr
    assert "Traceback" not in done.stderr
