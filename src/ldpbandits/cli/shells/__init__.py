"""Completion scripts, one module for each shell: each writes the same places in its own words."""
