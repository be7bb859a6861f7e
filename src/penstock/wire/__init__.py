"""Kafka's protocol: connections, requests, and what a client asks a cluster. Does not know Spark.

The only package that imports kafka-python, and only where a function needs it: see `penstock.wire.api.message`.
"""
