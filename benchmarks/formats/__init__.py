"""The format figures: bytes to typed columns, beside what Spark's users write to get there."""
