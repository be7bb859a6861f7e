"""Limits how far each partition is read in one trigger, so that none runs ahead of the slowest (E4)."""
