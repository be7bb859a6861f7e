"""Event time: which time a record is of, how far a partition has come, and who must wait for whom."""
