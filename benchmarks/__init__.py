"""Penstock beside its rivals, in one run on one machine: `python -m benchmarks`, or `make bench`."""
