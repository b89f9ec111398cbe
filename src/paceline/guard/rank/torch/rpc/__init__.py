"""The hooks for torch.distributed.rpc."""
