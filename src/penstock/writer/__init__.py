"""The sink: tasks write rows on executors, and the driver ends their transactions."""
