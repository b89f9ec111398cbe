"""The Loader: one pass after another over a dataset of known size."""
