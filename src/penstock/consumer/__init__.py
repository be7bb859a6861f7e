"""Kafka for plain Python: a connector in a consumer group, and its streams."""
