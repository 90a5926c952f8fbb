"""The quantities of the model, as types that mypy keeps apart.

A `Reward` exists on a user's device or in the lab. An agent has no use for one: every function of `agent/` takes a
`Response`, and a `Reward` given to it is a type error. At run time all are plain numbers.
"""

from typing import NewType

Arm = NewType("Arm", int)
"""Which option was pulled; arms are numbered from 0."""

Reward = NewType("Reward", float)
"""What a user did or felt. Private: it never leaves the device."""

Response = NewType("Response", float)
"""What the curator made of a reward. Public: the agent, and anyone listening, may see it."""

Epsilon = NewType("Epsilon", float)
"""By which epsilon a response was drawn. Public, and chosen before there is a reward."""
