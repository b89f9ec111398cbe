"""Proves the contract of equal steps and shapes by running the batches of every rank in one process. Needs no torch."""
