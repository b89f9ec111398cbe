"""The format that a watched rank writes and the judge reads: rings, boards, operations. Neither side locks."""
