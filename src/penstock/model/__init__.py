"""Values that cross processes: frozen, picklable, checked at construction. No I/O."""
