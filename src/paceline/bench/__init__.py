"""The input-pipeline benchmark: does the storage keep so many accelerators busy?

Workloads are written as DLIO's. Ranks are real, the accelerators are emulated, and every run is watched by the guard.
"""
