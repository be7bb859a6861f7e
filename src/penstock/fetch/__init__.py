"""From a range of offsets to Arrow batches: runs where the data is needed, and never imports the planning side."""
