"""The write figures: Penstock's sink and writer, compared with Spark's sink and with other producers."""
