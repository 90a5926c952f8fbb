"""Reports on experiments, computed beside the event loop."""
