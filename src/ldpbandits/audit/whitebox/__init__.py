"""Checks that know more than responses: the law of a mechanism, and the code of a curator."""
