"""From the lines that ranks have logged to the figures of a run, and comparisons of runs."""
