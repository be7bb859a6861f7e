"""The schema registry client."""
