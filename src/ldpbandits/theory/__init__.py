"""The theory: one function for each theorem, and a table of all bounds for a bandit. It needs nothing but Python."""
