"""Runs on executors: reads a range of offsets as Arrow batches."""
