"""From a snapshot of a job to a finding, or to nothing. Pure: no processes, files or clocks."""
