"""Options: each one declared once, with its parser, default and description."""
