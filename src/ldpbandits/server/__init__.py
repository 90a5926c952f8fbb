"""UNTRUSTED: an agent over HTTP. It assigns arms and counts each private response exactly once."""
