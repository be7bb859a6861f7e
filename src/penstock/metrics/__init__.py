"""The metrics of the source and the consumer, and their export to Prometheus."""
