"""Streams beside their rivals: how quickly they catch up, what a trigger takes, with data and without, and memory."""
