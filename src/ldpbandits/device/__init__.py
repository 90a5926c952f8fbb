"""TRUSTED: the only live part that sees a reward. It runs on the user's own device, on the standard library alone."""
