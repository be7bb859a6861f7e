"""Event time: where a record has it, and the watermark that follows from it. Pure: no client, no clock."""
