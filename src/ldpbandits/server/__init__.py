"""UNTRUSTED: an agent over HTTP. It hands out arms and counts each private response exactly once."""
