"""UNTRUSTED: sees responses only, and still finds the best arm. It runs on the standard library alone."""
