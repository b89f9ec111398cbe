"""Looks at a job that was not started under the guard: stacks of its ranks from outside, and what follows from them."""
