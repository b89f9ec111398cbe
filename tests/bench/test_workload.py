"""Workloads are read as DLIO's users write them, and what is misspelt is never ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_of
from paceline.bench.workload.workload import as_mapping, load_workload, scaled, shipped_names
from paceline.errors import EmptyPlanError, InputError

# the shapes of DLIO's own files, old and new
OLD = """
model: unet3d
framework: pytorch
workflow: {generate_data: False, train: True, checkpoint: True}
dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: 168
  record_length: 146600628
  record_length_stdev: 68341808
  record_length_resize: 2097152
reader: {data_loader: pytorch, batch_size: 7, read_threads: 4, file_shuffle: seed, sample_shuffle: seed}
train: {epochs: 5, computation_time: 0.323}
checkpoint: {checkpoint_folder: checkpoints/unet3d, checkpoint_after_epoch: 5, model_size: 499153191}
metric: {au: 0.90}
"""
NEW = """
model: {name: unet3d, type: cnn, model_size_bytes: 499153191}
framework: pytorch
dataset: {data_folder: s3://bucket/unet3d, format: npz, num_files_train: 168, record_length_bytes: 146600628}
storage:
  storage_type: s3
  storage_root: bucket
  storage_options: {access_key_id: me, secret_access_key: hush, endpoint_url: "http://a:1,http://b:2", region: x}
reader: {data_loader: pytorch, batch_size: 7, prefetch_size: 4, preprocess_time: {mean: 0.1, stdev: 0.01}}
train: {epochs: 5, computation_time: {type: gamma, shape: 2, scale: 0.1}}
output: {folder: here, metric: {exclude_start_steps: 2, exclude_end_steps: 1}}
"""
DLRM = """
model: dlrm
workflow: {train: True, do_eval: True}
dataset: {format: indexed_binary, num_files_train: 1, num_files_eval: 1, num_samples_per_file: 4195198976,
  record_length: 327680, keep_files: True, eval_num_samples_per_file: 91681240}
reader: {batch_size: 2048, batch_size_eval: 16384, sample_shuffle: random}
train: {computation_time: 0.064296, total_training_steps: 32768, total_eval_steps: 2048}
evaluation: {eval_time: 0.0843, steps_between_evals: 16384}
"""


def load(text: str, folder: Path, *overrides: str) -> Workload:
    path = folder / "workload.yaml"
    path.write_text(text)
    return load_workload(str(path), overrides).workload


def test_old_and_new_files_of_dlio_are_understood(tmp_path: Path) -> None:
    old, new = load(OLD, tmp_path), load(NEW, tmp_path)
    assert old.model.name == new.model.name == "unet3d"
    assert old.model.model_size_bytes == new.model.model_size_bytes == 499153191
    assert old.dataset.record_length_bytes == new.dataset.record_length_bytes == 146600628
    assert (new.train.computation_time.spread, new.train.computation_time.mean) == ("gamma", 0.2)
    assert (new.reader.preprocess_time.spread, new.reader.preprocess_time.stdev) == ("normal", 0.01)
    assert (new.output.exclude_start_steps, new.output.exclude_end_steps) == (2, 1)
    dlrm = load(DLRM, tmp_path)
    assert dlrm.dataset.format == "raw"
    assert dlrm.workflow.evaluation


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    told = as_mapping(load(NEW, tmp_path))
    assert "hush" not in str(told)
    assert "secret_access_key" in str(told)


def test_keys_without_effect_are_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(OLD)
    notes = dict(load_workload(str(tmp_path / "w.yaml")).ignored_keys)
    assert set(notes) == {"framework", "reader.data_loader"}
    assert "Paceline's loader" in notes["framework"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("reader.batchsize=50", "reader has no key 'batchsize'; did you mean 'batch_size'?"),
        ("trian.epochs=99", "there is no section 'trian'; did you mean 'train'?"),
        ("dataset.epochs=3", "did you mean 'train.epochs'?"),
        ("reader.odirect=true", "reader.odirect is a key of DLIO that is not supported"),
        ("checkpoint.optimization_groups=[1]", "checkpoint.optimization_groups is a key of DLIO that is not supported"),
        ("model.parallelism={tensor: 4}", "model.parallelism is a key of DLIO that is not supported"),
        ("reader.batch_size", "is not an override"),
        ("reader.batch_size=many", "reader.batch_size must be a number"),
        ("reader.batch_size=0", "reader.batch_size must be at least 1"),
        ("reader.tail=half", "reader.tail must be one of drop, even, pad, repeat"),
        ("train.computation_time={type: odd}", "train.computation_time.type must be one of"),
        ("train.computation_time={median: 1}", "train.computation_time has no 'median'"),
        ("dataset.record_dims=[3, 0]", "must be a list of whole numbers above 0"),
        ("workflow.train=1", "workflow.train must be true or false"),
        ("metric.au=90", "metric.au must be from 0 to 1"),
        ("dataset.compression=gzip", "does not exist for raw"),
        ("reader.balance=plan", "needs records of different lengths"),
        ("dataset.format=webp", "dataset.format must be one of npz, npy"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, override: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load("dataset: {format: raw}", tmp_path, override)
    assert said in str(caught.value)


def test_overrides_are_made_after_scaling_and_may_have_dlios_prefix() -> None:
    workload = load_workload("unet3d", ["++workload.reader.batch_size=3", "train.epochs=2"], scale=0.001).workload
    assert (workload.reader.batch_size, workload.train.epochs) == (3, 2)
    assert workload.dataset.record_length_bytes == 146601


def test_an_unknown_workload_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'unet3d'"):
        load_workload("unet3")


@pytest.mark.parametrize("name", shipped_names())
@pytest.mark.parametrize("scale", [1.0, 0.01, 0.0001])
def test_every_shipped_workload_has_steps_at_any_scale(name: str, scale: float) -> None:
    workload = load_workload(name, scale=scale).workload
    assert plan_of(workload, "train", 2).num_steps > 0 or scale < 0.001


@given(scale=st.floats(1e-4, 1.0), name=st.sampled_from(shipped_names()))
def test_scaling_keeps_what_accelerators_ask_for_per_second(scale: float, name: str) -> None:
    before = load_workload(name).workload
    after = scaled(before, scale)
    if before.dataset.record_length_bytes * scale > 100:
        rate = [each.dataset.record_length_bytes / each.train.computation_time.mean for each in (before, after)]
        assert rate[1] == pytest.approx(rate[0], rel=0.05)
    bytes_before = _bytes(before)
    assert _bytes(after) >= bytes_before * scale * 0.99
    assert after.dataset.num_files_train <= before.dataset.num_files_train


def _bytes(workload: Workload) -> int:
    data = workload.dataset
    return data.num_files_train * data.num_samples_per_file * data.record_length_bytes


def test_a_plan_without_a_step_is_an_error(tmp_path: Path) -> None:
    workload = load("dataset: {num_files_train: 20}", tmp_path, "reader.batch_size=3")
    with pytest.raises(EmptyPlanError, match="7 ranks x batch 3 = 21"):
        plan_of(workload, "train", 7)


BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)), "reader: *a39"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"model: \xff\xfe", "byte 7 is not UTF-8"),
        (b"model: {", "is not YAML"),
        (b"train: {epochs: !!int x}", "cannot be read as YAML"),
        (b"model: {name: 2024-99-99}", "cannot be read as YAML"),
        (b"model: " + b"[" * 3000, "cannot be read as YAML"),
        (b"reader: {batch_size: " + b"9" * 400 + b"}", "must be a number"),
        (b"dataset: {num_files_train: 1" + b"0" * 200 + b"}", "must be at most"),
        (b"train: {computation_time_stdev: [1]}", "must be a number"),
        (b"train: {computation_time: {1: 2, a: 3}}", "has no 1"),
        (b"storage: {storage_options: {1: 2, a: 3}}", "must have texts for keys"),
        (BOMB.encode(), "must be a section with keys"),
        (b"#" * (2 << 20), "it has more than"),
    ],
)
def test_a_workload_that_anybody_may_have_written_is_refused_with_a_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence) as told:
        load_workload(str(path))
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("value", ["[", "!!int x", "2024-99-99", "*nothing", "\udcff", "[" * 3000])
def test_a_setting_that_is_not_yaml_is_refused_with_a_sentence(value: str) -> None:
    with pytest.raises(InputError, match=r"reader\.batch_size=.*YAML"):
        load_workload("small", [f"reader.batch_size={value}"])
