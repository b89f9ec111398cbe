"""The input-pipeline benchmark: does storage keep N accelerators busy?

Workloads have DLIO's keys. Ranks are real, accelerators are emulated, and the guard watches every run. `bench_job` runs
a workload on ranks of this machine; `training.rank_entry` is what each of them does.
"""
