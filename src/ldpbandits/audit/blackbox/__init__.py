"""Black-box checks: they see only the responses of a function or program."""
