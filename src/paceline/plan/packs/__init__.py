"""Plans of packs: several samples share one row of a fixed number of tokens."""
