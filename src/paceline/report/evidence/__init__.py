"""What a run has left on disk, put together: calls, waits, steps, work. Broken files are skipped, and listed."""
