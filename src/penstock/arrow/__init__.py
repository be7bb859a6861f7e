"""Kafka in plain Python: Arrow batches out of topics, and Arrow data into topics."""
