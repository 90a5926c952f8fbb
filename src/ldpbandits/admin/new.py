"""A new experiment as a message: what is given as objects becomes JSON. Whether it makes sense, the server says."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, TypeAlias

from ldpbandits.agent.rules import Rule, rule_to_json
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.transforms import TRANSFORMS, Transform

Json: TypeAlias = Mapping[str, Any]
PAPER = "paper"


def arms_json(arms: Sequence[str]) -> list[str]:
    """Return the names of arms; one text is not a list of letters."""
    if isinstance(arms, str) or not isinstance(arms, Sequence):
        raise ParameterError(f"arms is a list of names, got {brief(arms)}")
    return [*arms]


def curator_json(
    curator: Json | Menu | CuratorSpec | None,
    epsilon: float | Sequence[float] | None,
    rewards: Transform | Json | None,
    mechanism: str | None,
) -> dict[str, Any]:
    """Return a curator that is given as a whole, or by its parts.

    >>> from ldpbandits import Range
    >>> curator_json(None, [0.5, 2], Range(1, 5), None)
    {'mechanism': 'bernoulli', 'epsilon': [0.5, 2], 'transform': {'kind': 'range', 'low': 1.0, 'high': 5.0}}
    """
    if (curator is None) == (epsilon is None):
        raise ParameterError("give epsilon (and rewards, unless they lie in [0, 1]), or a whole curator")
    if curator is None:
        several = [*epsilon] if isinstance(epsilon, Sequence) else epsilon
        data = rewards if rewards is None or isinstance(rewards, Mapping) else TRANSFORMS.to_json(rewards)
        transform = {} if data is None else {"transform": data}
        return {"mechanism": mechanism or "bernoulli", "epsilon": several, **transform}
    if rewards is not None or mechanism is not None:
        raise ParameterError("rewards and mechanism are part of the curator: give them there")
    return {**curator} if isinstance(curator, Mapping) else Menu.of(curator).to_json()


def rule_json(rule: Rule | Json | str | None) -> Json | str | None:
    """Return a rule that is given as an object, as its JSON, or by its kind; "paper" stands for the paper's."""
    if rule is None or rule == PAPER or isinstance(rule, Mapping):
        return rule
    return {"kind": rule} if isinstance(rule, str) else rule_to_json(rule)


def plain(data: object) -> object:
    """Return a message of ours, such as a ramp or tallies, as JSON; anything else as it is."""
    return asdict(data) if is_dataclass(data) and not isinstance(data, type) else data
