"""The stream figures: time to catch up, duration and CPU time of a trigger, planning, and memory."""
