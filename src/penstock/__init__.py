"""Penstock: the fastest way from Kafka into PySpark."""
