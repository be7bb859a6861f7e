"""Fetcher threads: from brokers to the queues of streams."""
