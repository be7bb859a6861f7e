"""Serves a live page of a cluster to browsers, from the snapshots of `monitor/`.

Read-only: no request of a browser changes anything in the cluster. Snapshots are encoded once, however many browsers
look; the records of a topic are read by a function that the caller passes in.
"""
