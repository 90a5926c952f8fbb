"""UNTRUSTED: the agent sees responses only, and still finds the best arm. It needs the standard library alone."""

from ldpbandits.agent import laplace_rules as laplace_rules  # registers their kinds, so that JSON can name them
