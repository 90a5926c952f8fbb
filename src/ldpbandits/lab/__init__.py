"""The only place where rewards and agents meet: simulation, the paper's panels, experiments and their results.

It needs the extra `lab`. Modules are imported by name, so that `rewards` and `algorithms`, plain Python, do without.
"""
