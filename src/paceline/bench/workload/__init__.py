"""What a run of the benchmark does: a workload in DLIO's vocabulary, and what follows from it."""
