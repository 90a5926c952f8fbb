"""Engines: compiled loops that play rounds. `step` plays each of them; `leap` draws from the same law in leaps."""
