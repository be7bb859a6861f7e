"""How far each partition may be read in one trigger, so that none runs ahead of the slowest."""
