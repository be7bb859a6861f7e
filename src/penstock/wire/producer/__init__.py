"""The producer: writes record batches, idempotently or in transactions."""
