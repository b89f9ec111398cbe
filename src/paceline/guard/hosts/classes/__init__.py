"""Large jobs by classes: ranks in the same state are told of by one number, and a few of them stand for the others."""
