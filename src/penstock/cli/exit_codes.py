"""How a command ends."""

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
