"""Event time in the consumer: watermarks, alignment and idle partitions."""
