"""Watches torch.distributed inside a rank. It imports no torch: the hooks get the module once the script has it."""
