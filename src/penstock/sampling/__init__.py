"""Looks at records before planning: the one user of both planner and reader."""
