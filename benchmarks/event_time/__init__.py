"""Event time: what keeping partitions together costs, and what it saves that Spark's own source loses."""
