"""The consumer figures: members of a group, each alone in it, over the same records."""
