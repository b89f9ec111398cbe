"""Moves rows between ranks: gathers batches, exchanges rows, evens out the work of a step."""
