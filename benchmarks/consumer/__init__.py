"""The consumer figures: group members, each alone in its group, read the same records."""
