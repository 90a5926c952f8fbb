"""Algorithms from JSON, as files and records have them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ldpbandits.agent.rules import KLUCBPlus, Rule, paper_rule, rule_from_json, ucb1
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm, NotPrivate, algorithm, curator_of
from ldpbandits.lab.mix import Mix
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.registry import check_keys
from ldpbandits.spec.transforms import TRANSFORMS


def algorithms_from_json(table: object) -> list[Algorithm]:
    """Read what a file says of an algorithm: one of ours by name, or a rule and a curator, for one epsilon or several.

    {"name": "ldp-ucb-b", "epsilon": [0.2, 2]}            one of ours, twice
    {"rule": "my_module:MyRule", "epsilon": 1}            a rule of your own on CTB; curator, name: see `with_rule`
    {"name": "mine", "curator": {...}}                    the paper's rule on any curator
    {"name": ..., "rule": {...}, "curator": {...}}        what `Algorithm.to_json` writes
    """
    if not isinstance(table, Mapping) or not table.keys() <= {"name", "epsilon", "rule", "curator"}:
        raise ParameterError(f"an algorithm has a name or a rule, an epsilon and a curator, got {brief(table)}")
    if not {"name", "rule", "curator"} & table.keys():
        raise ParameterError("an algorithm needs a name, or a rule")
    epsilons, curator, name = table.get("epsilon"), table.get("curator"), table.get("name", "")
    if epsilons == []:
        raise ParameterError("epsilon: a list of epsilons needs at least one")
    listed: Sequence[Any] = epsilons if isinstance(epsilons, list) else [epsilons]
    if "rule" not in table and "curator" not in table:
        return [algorithm(name, epsilon) for epsilon in listed]
    spec = curator_or_none(curator) if isinstance(curator, Mapping) else None
    if spec is not None and epsilons is not None:
        raise ParameterError("epsilon: is part of the curator")
    played = []
    for epsilon in listed:
        seen = curator_of(curator, epsilon) if spec is None else spec
        own = rule_from_json(table["rule"], may_import=True) if "rule" in table else _usual_rule(seen)
        played.append(_like_ours(Algorithm(name or type(own).__name__, own, seen)))
    return played


def _usual_rule(curator: CuratorSpec | NotPrivate | Mix) -> Rule:
    match curator:
        case NotPrivate():
            return ucb1()
        case CuratorSpec(mechanism=mechanism):
            return paper_rule(mechanism)
        case Mix():
            return KLUCBPlus()


def curator_or_none(data: Mapping[str, Any]) -> CuratorSpec | NotPrivate | Mix:
    """Read a curator from JSON, of one epsilon or a mix of several, or that there is none."""
    if "shares" in data:
        return Mix.from_json(data)
    if data.get("mechanism") != NotPrivate.KIND:
        return CuratorSpec.from_json(data)
    check_keys("no curator", data, {"mechanism"}, {"mechanism", "transform"})
    return NotPrivate(TRANSFORMS.from_json(data.get("transform", {"kind": "range"})))


def _like_ours(played: Algorithm) -> Algorithm:
    """Return one of ours with its looks and bound, if that is what this is."""
    try:
        ours = algorithm(played.name, played.epsilon)
    except ParameterError:
        return played
    return ours if ours == played else played
