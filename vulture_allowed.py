"""Names that look unused and are not: users call them, or a package or a template finds them by their name.

`make lint` runs vulture with this list. A name whose last use in the project is gone is removed from src, not listed.
"""

# users' methods and values, which are in the documents
_.to_keyed
_.to_nested
_.longest_of
_.gather_state
_.undivided
_.drop_last  # lightning reads it from a sampler
_.SKIP
_.ALL_SEEN

# kept so that it lives: a weak reference
_._reference

# found by name: Python's import system, pickle, numpy
_.__getattr__
_.__dir__
_.__loader__
_.find_class
_.writeable

# by the parameters of torch.distributed and mpi4py, which callers may give by name
_.recvcounts
_.partitions
_.obj
_.scatter_object_output_list
_.scatter_object_input_list
_.object_list
_.object_gather_list
_.output_tensor
_.output_tensor_list
_.output_tensor_lists
_.gather_list
_.scatter_list
_.input_list
_.device_ids
_.wait_all_ranks

# handed on to torch's DataLoader by name
_.prefetch_factor
_.persistent_workers
_.worker_init_fn
_.pin_memory_device
_.in_order

# kept alive: a message that is under way needs its request
_._sends

# set for Python's enum
_._value_

# read by the template of the page
_.is_out_of_line
_.tone
_.first_difference_position
_.cause_text
_.groups_title

# read by `dataclasses.asdict`, on its way to a rank of the lab
_.file_bytes

# keys of summary.json, which are read as texts
_.au_percentage
_.MB_per_second
_.steps_per_rank
_.samples_read
_.bytes_read
_.cache_share
_.time_to_first_batch_seconds
_.load_seconds_percentiles
_.seconds_per_rank
_.spread_between_ranks
_.straggler
_.cpu_seconds_per_sample
_.epoch_seconds
_.log_lines_left_out
_.version
_.num_accelerators
_.num_hosts
_.hostname
_.host_cpu_count
_.host_memory_GB
_.data_size_per_host_GB
_.potential_caching
_.paceline

# causes of warnings, which users name in options and comments
_.BUFFER_IN_USE
_.RESULTS_DIFFER

# read by compiled code
_.other_buffer

# what users' kernels read of a pack, and a policy that they name
_.cu_seqlens
_.max_seqlen
_.CUT

# called by notebooks
_._repr_html_

# called by pytest, by their names
_.pytest_configure
_.pytest_itemcollected
_.pytest_runtest_logreport
_.pytest_collectreport
_.ranks_comm
_.setup
_.runtest

# called by Lightning
_.WorkReport
_.on_train_start
_.on_train_epoch_start
_.on_validation_end
_.on_before_backward
_.on_before_optimizer_step
_.on_train_epoch_end
_.optimizer
