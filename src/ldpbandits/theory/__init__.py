"""The theory: one function a theorem, and a table of all bounds for a bandit. It needs nothing but Python."""
