"""Files are made by any number of ranks, from where an earlier attempt ended, and the manifest says what is there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.bench import runs

from paceline.bench.data.files import Files
from paceline.bench.data.generate import GenerateError, blocks_of, generate
from paceline.bench.data.manifest import check_manifest
from paceline.bench.data.store import Store, store_of
from paceline.bench.training.samples import SampleError, Samples
from paceline.bench.workload.sections import FORMATS, Dataset
from paceline.errors import InputError


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("world_size", [3, 7])
def test_the_files_do_not_depend_on_the_number_of_ranks(tmp_path: Path, world_size: int) -> None:
    made = []
    for name, size in (("alone", 1), ("together", world_size)):
        workload = runs.workload_of(tmp_path / name, dataset={"num_files_eval": 2, "num_subfolders_train": 3})
        done = [generate(workload, store_of(workload), rank=rank, world_size=size) for rank in range(size)]
        assert done == [False] * (size - 1) + [True]
        made.append(contents(tmp_path / name / "data"))
    assert made[0] == made[1]
    told = json.loads(made[0]["manifest.json"])["splits"]
    assert told["train"]["num_files"] == 20
    assert told["train"]["num_bytes"] == sum(len(made[0][name]) for name in made[0] if name.startswith("train/"))


def test_what_is_done_is_not_made_again_by_other_ranks_either(tmp_path: Path) -> None:
    workload, written = runs.workload_of(tmp_path), []

    class Counting(Store):
        def write(self, path: str, content: object) -> None:
            written.append(path)
            super().write(path, content)

    store = Counting(store_of(workload).url)
    assert not generate(workload, store, rank=0, world_size=2)
    assert len([path for path in written if path.startswith("train/")]) == 10
    written.clear()
    assert generate(workload, store, rank=0, world_size=1)
    assert len([path for path in written if path.startswith("train/")]) == 10
    written.clear()
    assert generate(workload, store)
    assert written == ["manifest.json"]


def test_damaged_and_lost_files_are_made_anew(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)
    runs.write_files(workload)
    before = contents(tmp_path / "data")
    files = Files(workload.dataset, "train")
    (tmp_path / "data" / files.path(3)).write_bytes(b"nothing")
    (tmp_path / "data" / files.path(4)).unlink()
    assert generate(workload, store_of(workload), verify=True)
    assert contents(tmp_path / "data") == before


def test_a_data_set_that_is_not_whole_or_another_one_is_refused(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)
    with pytest.raises(InputError, match="paceline bench generate"):
        check_manifest(workload, store_of(workload))
    runs.write_files(workload)
    check_manifest(workload, store_of(workload))
    other = replace(workload, dataset=replace(workload.dataset, record_length_bytes=601))
    with pytest.raises(InputError, match="holds other train files"):
        check_manifest(other, store_of(other))


def test_a_disk_that_is_full_is_said_and_what_is_whole_stays(tmp_path: Path) -> None:
    workload, kept = runs.workload_of(tmp_path), 5

    class Full(Store):
        def write(self, path: str, content: object) -> None:
            nonlocal kept
            if path.startswith("train/"):
                kept -= 1
                if kept < 0:
                    raise OSError(28, "No space left on device", path)
            super().write(path, content)

    store = Full(store_of(workload).url)
    with pytest.raises(GenerateError, match=r"img_05_of_20.npz cannot be written: No space left on device"):
        generate(workload, store)
    kept = 100
    assert generate(workload, store)


def test_blocks_are_few_and_hold_each_file_once() -> None:
    for num_files in (1, 1023, 1024, 1025, 64_000_000):
        blocks = list(blocks_of(Files(Dataset(num_files_train=num_files), "train")))
        assert len(blocks) <= 1024
        assert [block.first for block in blocks] == [0, *(block.end for block in blocks[:-1])]
        assert blocks[-1].end == num_files


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("per_file", [1, 4])
def test_each_sample_comes_back_from_real_files(tmp_path: Path, name: str, per_file: int) -> None:
    per_file = 1 if name in ("jpeg", "png") else per_file
    data = {"format": name, "num_files_train": 3, "num_samples_per_file": per_file, "record_length_bytes_stdev": 90}
    workload = runs.workload_of(tmp_path, dataset=data)
    runs.write_files(workload)
    samples = Samples(workload, "train", store_of(workload))
    for sample in range(len(samples) - 1, -1, -1):
        told = samples[sample]  # which verifies it
        assert told["x"].size == samples.files.length(sample)
        assert told["bytes"] >= 0
    samples.close()


def test_a_damaged_sample_is_named_with_its_file(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)
    runs.write_files(workload)
    samples = Samples(workload, "train", store_of(workload))
    path = tmp_path / "data" / samples.files.path(7)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(SampleError, match=r"img_07_of_20.npz: DamagedError: the archive is cut off"):
        samples[7]
    path.unlink()
    with pytest.raises(SampleError, match=r"img_07_of_20.npz: FileNotFoundError"):
        samples[7]


def test_records_have_the_dims_and_type_that_are_asked_for(tmp_path: Path) -> None:
    data = {"record_dims": [4, 3], "record_element_type": "float32", "format": "npy"}
    workload = runs.workload_of(tmp_path, dataset=data)
    runs.write_files(workload)
    sample = Samples(workload, "train", store_of(workload))[3]["x"]
    assert (sample.shape, str(sample.dtype)) == ((4, 3), "float32")


@pytest.mark.parametrize(
    "content", [b'{"my own": "list"}', b"not JSON", b"[]", b'{"splits": {"train": 3}, "format": "npz"}']
)
def test_a_manifest_of_somebody_else_is_neither_read_nor_replaced(tmp_path: Path, content: bytes) -> None:
    workload = runs.workload_of(tmp_path)
    manifest = tmp_path / "data" / "manifest.json"
    manifest.parent.mkdir()
    manifest.write_bytes(content)
    with pytest.raises(InputError, match=r"manifest.json was not made by `paceline bench generate`"):
        generate(workload, store_of(workload))
    with pytest.raises(InputError, match=r"manifest.json was not made by `paceline bench generate`"):
        check_manifest(workload, store_of(workload))
    assert contents(tmp_path / "data") == {"manifest.json": content}


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)
    path = tmp_path / "data" / Files(workload.dataset, "train").path(7)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"my own sample")
    with pytest.raises(InputError, match="was not made by"):
        generate(workload, store_of(workload))
    assert contents(tmp_path / "data") == {str(path.relative_to(tmp_path / "data")): b"my own sample"}


def test_files_of_an_attempt_that_was_ended_are_made_again(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)

    class Failing(Store):
        def write(self, path: str, content: object) -> None:
            if path == Files(workload.dataset, "train").path(9):
                raise OSError(28, "No space left on device")
            super().write(path, content)

    with pytest.raises(GenerateError, match="No space left"):
        generate(workload, Failing(store_of(workload).url))
    assert generate(workload, store_of(workload))


@pytest.mark.parametrize("damaged", [b"\xff", b"", b"0,1\n", b"0,x,y\n", b"7,100,0a\n"])
def test_a_block_whose_ledger_is_damaged_is_made_again(tmp_path: Path, damaged: bytes) -> None:
    workload = runs.workload_of(tmp_path)
    assert generate(workload, store_of(workload))
    before = contents(tmp_path / "data")
    ledger = min((tmp_path / "data").rglob("0.csv"))
    ledger.write_bytes(damaged)
    assert generate(workload, store_of(workload))
    assert contents(tmp_path / "data") == before


def test_a_file_that_cannot_be_opened_as_its_format_is_closed(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path, dataset={"format": "hdf5", "num_samples_per_file": 3})
    assert generate(workload, store_of(workload))
    opened = []

    class Noting(Store):
        def open(self, path: str) -> Any:
            opened.append(super().open(path))
            return opened[-1]

    samples = Samples(workload, "train", Noting(store_of(workload).url))
    Path(store_of(workload).url, samples.files.path(0)).write_bytes(b"no HDF5")
    with pytest.raises(SampleError, match="img_"):
        samples[0]
    assert [file.closed for file in opened] == [True]
