"""Talking to Kafka. The only package that imports kafka-python, and it knows nothing of Spark."""
