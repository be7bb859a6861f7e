"""Metric names and values of the source and the consumer, and the adapter for Prometheus."""
