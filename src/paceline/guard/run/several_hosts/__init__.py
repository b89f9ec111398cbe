"""What a run does if its job is on several hosts: it is their head, follows one, or watches for it."""
