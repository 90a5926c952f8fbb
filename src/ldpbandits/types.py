"""The quantities of the model, as types that mypy keeps apart.

A `Reward` exists on a user's device or in the lab. An agent never takes one: every function of `agent/` takes a
`Response`, and passing a `Reward` is a type error. At run time all are plain numbers.
"""

from typing import NewType

Arm = NewType("Arm", int)
"""The number of an option; arms are numbered from 0."""

Reward = NewType("Reward", float)
"""The outcome of a pull: what a user did or felt. Private: it never leaves the device."""

Response = NewType("Response", float)
"""The randomised output of the curator. Public: the agent, and anyone listening, may see it."""

Epsilon = NewType("Epsilon", float)
"""The epsilon of the mechanism that drew a response. Public, and chosen before there is a reward."""
