"""Where a Streamer writes to."""
