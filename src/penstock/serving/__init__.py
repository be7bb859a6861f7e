"""HTTP servers of Penstock: the page of `penstock watch` and of drivers, and the exporter."""
