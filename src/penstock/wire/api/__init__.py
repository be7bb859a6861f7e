"""Kafka's APIs: one file for each request and its response."""
