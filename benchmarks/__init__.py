"""Compares Penstock with other Kafka readers, in one run on one machine: `python -m benchmarks`, or `make bench`."""
