"""Reports: what may be concluded of an experiment, worked out beside the event loop."""
