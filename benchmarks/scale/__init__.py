"""Growth: the cost of planning and of rebalances against the number of partitions, ranges and consumers."""
