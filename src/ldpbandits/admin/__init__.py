"""For experimenters: steer the experiments of a server from Python. It needs the standard library alone."""
