"""Out of Kafka into something else: the Streamer and its sinks."""
