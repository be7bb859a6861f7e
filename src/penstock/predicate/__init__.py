"""Predicates in SQL: parsed on the driver, evaluated by tasks on whole batches."""
