"""Streams with event time: watermarks, alignment, idle partitions."""
