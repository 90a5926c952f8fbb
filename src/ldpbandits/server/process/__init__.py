"""The server as a process: sockets, connections, workers and their supervisor, logs, metrics."""
