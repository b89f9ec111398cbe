"""DLIO's keys that are not ours: other names, keys without effect here, and keys that are not supported."""

from __future__ import annotations

_OTHER_CLASSES = "classes of other packages are not loaded: ranks read with Paceline's loader"
_PARALLEL = "ranks are data-parallel: a checkpoint is model_size_bytes, written by one rank or in equal parts by all"
_NOT_READ = "DLIO does not read it either"
_LOADER = "ranks read with Paceline's loader, whatever the framework"

_OF_PARALLEL = (
    "optimization_groups",
    "num_layers",
    "layer_parameters",
    "parallelism",
    "transformer",
    "tensor_parallelism",
    "pipeline_parallelism",
    "data_parallelism",
    "zero_stage",
)

# sections, and keys, that have another name here
SECTIONS = {"data_reader": "reader"}
SAME = {
    "model.model_size": "model.model_size_bytes",
    "checkpoint.model_size": "model.model_size_bytes",
    "checkpoint.model_size_bytes": "model.model_size_bytes",
    "dataset.record_length": "dataset.record_length_bytes",
    "dataset.record_length_stdev": "dataset.record_length_bytes_stdev",
    "dataset.record_length_resize": "dataset.record_length_bytes_resize",
    "dataset.parquet.row_group_size": "dataset.row_group_size",
    "output.metric.exclude_start_steps": "output.exclude_start_steps",
    "output.metric.exclude_end_steps": "output.exclude_end_steps",
    "workflow.do_eval": "workflow.evaluation",
}
# what DLIO spells as a second key: the standard deviation of a duration
SPREADS = {
    "reader.preprocess_time_stdev": "reader.preprocess_time",
    "train.computation_time_stdev": "train.computation_time",
    "evaluation.eval_time_stdev": "evaluation.eval_time",
}
WITHOUT_EFFECT = {
    "framework": _LOADER,
    "model.type": "only the size of the model counts",
    "model.model_datatype": "only the size of the model counts",
    "model.optimizer_datatype": "only the size of the model counts",
    "reader.data_loader": _LOADER,
    "reader.data_loader_sampler": "the plan decides who reads what",
    "reader.computation_threads": "nothing is computed on samples",
    "reader.write_threads": "every rank writes one file at a time",
    "reader.transfer_size": "files are read whole, or record by record",
    "reader.shuffle_size": "the shuffle is over the whole epoch",
    "reader.dont_use_mmap": "nothing is mapped",
    "reader.file_access": "how files are shared follows from num_samples_per_file",
    "reader.read_type": "samples are read on demand",
    "dataset.keep_files": "files are kept",
    "dataset.generation_buffer_size": "a file is made in memory and written at once",
    "dataset.data_gen_method": "contents come from a seed",
    "dataset.record_element_bytes": "it follows from record_element_type",
    "dataset.eval_num_samples_per_file": _NOT_READ,
    "train.total_eval_steps": _NOT_READ,
    "evaluation.steps_between_evals": _NOT_READ,
    "workflow.debug": "each rank's steps are always written",
    "workflow.profiling": "there is no profiler: figures of each step are always written",
    "profiling.profiler": "there is no profiler: figures of each step are always written",
    "profiling.iostat_devices": "there is no profiler: figures of each step are always written",
    "output.log_file": "figures are JSON",
    "storage.storage_library": "object stores are read by way of fsspec",
    "storage.post_generation_settle_seconds": "generating is a job of its own",
    "checkpoint.rank_sync": "ranks always wait for each other after a checkpoint",
    "checkpoint.randomize_tensor": "checkpoints always hold random bytes",
}
NOT_SUPPORTED = {
    "reader.reader_classname": _OTHER_CLASSES,
    "reader.data_loader_classname": _OTHER_CLASSES,
    "reader.odirect": "files are read through the page cache; reader.cache=drop empties it before each epoch",
    "reader.transformed_record_dims": "use dataset.record_length_bytes_resize",
    "reader.transformed_record_element_type": "use dataset.record_element_type",
    "dataset.hdf5": "an HDF5 file holds one dataset of bytes; enable_chunking and chunk_size are known",
    "dataset.parquet": "a Parquet file holds one column of bytes; row_group_size is known",
    "checkpoint.checkpoint_mechanism_classname": _OTHER_CLASSES,
    "checkpoint.time_between_checkpoints": "there are no runs of checkpoints alone",
    "checkpoint.num_checkpoints_write": "there are no runs of checkpoints alone",
    "checkpoint.num_checkpoints_read": "there are no runs of checkpoints alone",
    "checkpoint.recovery_rank_shift": "each rank reads back what it wrote, after dropping it from the cache",
    "checkpoint.mode": "there are no runs of checkpoints alone",
    "checkpoint.ksm": "checkpoints always hold random bytes",
    **{f"{section}.{key}": _PARALLEL for section in ("model", "checkpoint") for key in _OF_PARALLEL},
    "transformer": _PARALLEL,
}
