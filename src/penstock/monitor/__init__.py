"""Keeps a picture of a cluster: brokers, topics, groups, and how far groups lag, in records and in seconds.

A `Collector` asks the cluster in its own thread, with a bounded number of requests per second. Everything that shows
the picture (`penstock top`, `penstock exporter`, a page) reads its frozen `Snapshot` values, and asks nothing itself.
"""
