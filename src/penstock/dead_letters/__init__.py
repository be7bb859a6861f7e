"""Dead letters: records that could not be decoded, written to a topic of their own."""
