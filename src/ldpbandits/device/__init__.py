"""TRUSTED: the only live package that sees a reward. It runs on the user's device, on the standard library alone."""
