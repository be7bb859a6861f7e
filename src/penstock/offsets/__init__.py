"""Offsets between the checkpoint and Kafka: what a query has read, and what its group is told."""
