"""UNTRUSTED: sees responses only, and still finds the best arm. It runs on the standard library alone."""

from ldpbandits.agent import laplace_rules as laplace_rules  # it registers them: whoever reads a rule's JSON knows all
