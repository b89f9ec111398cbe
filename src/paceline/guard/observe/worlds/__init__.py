"""Which processes make one job: the worlds that they share, and the jobs that have met."""
