"""The Streamer, which copies a topic to a sink, and the sinks."""
