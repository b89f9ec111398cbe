"""Names, sizes and contents are arithmetic, and every format gives back what was put in."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.bench.data.files import Files
from paceline.bench.data.formats import format_of
from paceline.bench.data.formats.plain import DamagedError
from paceline.bench.data.formats.tfrecord import example, framed, framed_length
from paceline.bench.workload.sections import FORMATS, Dataset

SEVERAL = [name for name in FORMATS if name not in ("jpeg", "png")]


def test_no_two_files_have_one_name() -> None:
    files = Files(Dataset(num_files_train=1001, num_subfolders_train=7), "train")
    assert len({files.path(file) for file in range(1001)}) == 1001
    assert files.path(8) == "train/1/img_0008_of_1001.npz"


def test_names_and_sizes_of_64_million_files_need_no_list() -> None:
    files = Files(Dataset(num_files_train=64_000_000, record_length_bytes_stdev=9000), "train")
    assert files.path(63_999_999).endswith("63999999_of_64000000.npz")
    assert files.length(63_999_999) == files.lengths(63_999_990, 10)[9]


@given(mean=st.integers(1, 10**6), stdev=st.integers(1, 10**6), first=st.integers(0, 10**9))
def test_lengths_vary_about_their_mean_and_are_never_empty(mean: int, stdev: int, first: int) -> None:
    lengths = Files(Dataset(record_length_bytes=mean, record_length_bytes_stdev=stdev), "train").lengths(first, 2000)
    assert lengths.min() >= 1
    assert lengths.max() <= 2 * mean
    assert abs(lengths.mean() - mean) <= 0.1 * mean + 1


def test_contents_differ_between_samples_splits_and_seeds() -> None:
    data = Dataset(record_length_bytes=64, num_files_eval=8)
    made = [Files(data, "train").content(0), Files(data, "train").content(1), Files(data, "eval").content(0)]
    made.append(Files(replace(data, seed=1), "train").content(0))
    assert len({record.tobytes() for record in made}) == 4


def files_of(name: str, per_file: int, stdev: int, **settings: object) -> Files:
    data = Dataset(
        format=name,
        num_files_train=3,
        num_samples_per_file=per_file,
        record_length_bytes=1000,
        record_length_bytes_stdev=stdev,
        row_group_size=2,
    )
    return Files(replace(data, **settings), "train")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("stdev", [0, 300])
def test_a_file_of_one_record_gives_it_back(name: str, stdev: int) -> None:
    files = files_of(name, 1, stdev)
    form, record = format_of(files), files.content(2)
    back = form.decode(bytes(form.encode([record])))
    assert back.size == record.size
    if name != "jpeg":  # which gives back what is near
        np.testing.assert_array_equal(back, record)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("stdev", [0, 300])
def test_a_file_of_several_records_gives_each_back_in_any_order(name: str, stdev: int) -> None:
    files = files_of(name, 5, stdev)
    form, records = format_of(files), [files.content(2 * 5 + slot) for slot in range(5)]
    opened = form.open(io.BytesIO(bytes(form.encode(records))), 2)
    for slot in (3, 1, 1, 0, 4, 2):
        np.testing.assert_array_equal(opened.record(slot)[0], records[slot])
    opened.close()


@pytest.mark.parametrize(
    ("name", "codec"), [("npz", "gzip"), ("hdf5", "gzip"), ("parquet", "zstd"), ("parquet", "snappy")]
)
def test_compressed_files_are_read(name: str, codec: str) -> None:
    files = files_of(name, 1, 0, compression=codec)
    form, record = format_of(files), np.zeros(1000, np.uint8)
    content = bytes(form.encode([record]))
    np.testing.assert_array_equal(form.decode(content), record)
    assert name == "hdf5" or len(content) < 1500


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_off_is_an_error(name: str) -> None:
    files = files_of(name, 1, 0)
    form = format_of(files)
    content = bytes(form.encode([files.content(0)]))
    if name == "raw":  # only the length tells, which the reader compares
        assert form.decode(content[:500]).size == 500
        return
    with pytest.raises(Exception, match=r".+"):
        form.decode(content[: len(content) // 2])


@pytest.mark.parametrize("name", ["npz", "tfrecord", "png"])
def test_a_flipped_byte_is_an_error_where_the_format_has_checksums(name: str) -> None:
    files = files_of(name, 1, 0)
    form = format_of(files)
    content = bytearray(form.encode([files.content(0)]))
    content[len(content) // 2] ^= 1
    with pytest.raises((DamagedError, OSError, SyntaxError)):
        form.decode(bytes(content))


def test_npz_files_are_numpys() -> None:
    files = files_of("npz", 2, 0)
    records = [files.content(slot) for slot in range(2)]
    with np.load(io.BytesIO(bytes(format_of(files).encode(records)))) as archive:
        np.testing.assert_array_equal(archive["x_1"], records[1])
    with io.BytesIO() as made, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive_of_others:
        array = io.BytesIO()
        np.save(array, records[0])
        archive_of_others.writestr("x_0.npy", array.getvalue())
        archive_of_others.close()
        np.testing.assert_array_equal(format_of(files).decode(made.getvalue()), records[0])


@given(length=st.integers(0, 70_000))
def test_the_length_of_a_tfrecord_is_known_before_it_is_made(length: int) -> None:
    assert framed_length(length) == len(framed(bytes(length)))


def test_a_tfrecord_is_what_tensorflow_writes() -> None:
    """As its description has it: an Example with the feature x = b"ab"; a frame begins with the length."""
    assert example(b"ab") == bytes.fromhex("0a0d 0a0b 0a0178 1206 0a04 0a026162".replace(" ", ""))
    assert framed(b"")[:8] == len(example(b"")).to_bytes(8, "little")
