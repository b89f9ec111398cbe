"""The files of a workload: what is in them, how they are made, and where they are."""
