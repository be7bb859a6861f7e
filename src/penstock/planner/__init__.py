"""Runs on the driver: decides what each task reads."""
