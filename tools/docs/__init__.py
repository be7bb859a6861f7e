"""Generates the parts of the documentation that come from code and from measurements: `make docs`."""
