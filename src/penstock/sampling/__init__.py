"""Reads a few records on the driver before planning. The only package that uses both planner and reader."""
