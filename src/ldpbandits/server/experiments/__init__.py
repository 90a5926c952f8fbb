"""Experiments while the server runs: decisions, commands, guardrails, history, stopping."""
