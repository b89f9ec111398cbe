"""What every rank of a benchmark run does: load, compute, wait, save, and log each step."""
