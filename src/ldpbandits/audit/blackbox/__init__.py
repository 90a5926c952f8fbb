"""Checks that look at responses alone: of any function or program, whoever wrote it."""
