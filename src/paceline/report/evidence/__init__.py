"""What a run has left on disk, read with forgiveness and put together: calls, waits, steps, work."""
