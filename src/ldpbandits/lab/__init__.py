"""The only place where rewards and agents meet: theory, which needs nothing but Python, and simulation.

Simulation needs the extra `lab`; its modules are imported by name, so that theory does without.
"""
