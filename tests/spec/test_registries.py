"""Every kind that is registered keeps the contract of its sort, and the contract finds one that does not."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from tests.spec.kind_contract import (
    CURATOR_CONTRACT,
    RULE_CONTRACT,
    CuratorPromise,
    RulePromise,
    debiases_what_it_says_of_the_mean,
    draws_what_the_law_says,
    goes_through_json_without_loss,
    plays_the_same_live_and_compiled,
    rules,
    specs,
    tells_possible_responses_from_others,
)

from ldpbandits import BernoulliCurator, CuratorSpec, ParameterError, Response, Rule, SpecError
from ldpbandits.agent.inference.mechanisms import INFERENCES, Inference
from ldpbandits.agent.kernels import ArmView, Parameters, Random
from ldpbandits.agent.rules import RULES, rule_from_json
from ldpbandits.device.curators import CURATORS, Curator, curator_from_json
from ldpbandits.spec.mechanisms import MECHANISMS, Bernoulli, Laplace
from ldpbandits.spec.registry import Registry
from ldpbandits.spec.transforms import TRANSFORMS, Range


def name(value: Any) -> str:
    """Name a case: a check, a curator or a rule."""
    if isinstance(value, CuratorSpec):
        return f"{value.mechanism.kind}-{value.transform.kind}"
    return str(getattr(value, "__name__", type(value).__name__))


@pytest.mark.parametrize("spec", specs(), ids=name)
@pytest.mark.parametrize("promise", CURATOR_CONTRACT, ids=name)
def test_every_mechanism_and_transform_keeps_the_contract(promise: CuratorPromise, spec: CuratorSpec) -> None:
    """Each promise holds for each pair that is registered."""
    promise(spec)


@pytest.mark.parametrize("rule", rules(), ids=name)
@pytest.mark.parametrize("promise", RULE_CONTRACT, ids=name)
def test_every_rule_keeps_the_contract(promise: RulePromise, rule: Rule) -> None:
    """Each promise holds for each rule that is registered."""
    promise(rule)


def test_there_is_something_to_check() -> None:
    """The paper's five curators and its rule are among them."""
    paper = {"bernoulli-range", "bernoulli-sigmoid", "laplace-range", "laplace-sigmoid", "laplace-real-line"}
    assert {name(spec) for spec in specs()} >= paper
    assert "UCB" in map(name, rules())


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered in a test is gone after it."""
    for registry in (MECHANISMS, TRANSFORMS, RULES):
        monkeypatch.setattr(registry, "_types", dict(registry._types))
    monkeypatch.setattr(CURATORS, "_by_mechanism", dict(CURATORS._by_mechanism))
    monkeypatch.setitem(INFERENCES, Lopsided, LopsidedInference)


@dataclass(frozen=True)
class Lopsided(Bernoulli):
    """FAULT: the way back is not the inverse of the way there."""

    kind: ClassVar[str] = "lopsided"


class LopsidedInference(Inference[Lopsided]):
    """The inference that forgets the noise."""

    def debiased_mean(self, mean: float) -> float:
        """Return the mean as it is."""
        return mean


@dataclass(frozen=True)
class Wordless(Bernoulli):
    """FAULT: its curator says something that is no possible response."""

    kind: ClassVar[str] = "wordless"


class WordlessCurator(Curator):
    """Says 2 to everything."""

    mechanism = Wordless

    def _privatise(self, *_: Any) -> Response:
        return Response(2.0)


@dataclass(frozen=True)
class Generous(Bernoulli):
    """FAULT: the law has another epsilon than the device draws with."""

    kind: ClassVar[str] = "generous"

    def response_mean(self, mean: float) -> float:
        """The law of twice the epsilon."""
        return Bernoulli(2 * self.epsilon).response_mean(mean)


class GenerousCurator(BernoulliCurator):
    """Draws as CTB does."""

    mechanism = Generous


@dataclass(frozen=True)
class Shrinking(Bernoulli):
    """FAULT: what is made of its JSON is another one."""

    kind: ClassVar[str] = "shrinking"

    def __post_init__(self) -> None:
        """Take half of what is asked for."""
        object.__setattr__(self, "epsilon", self.epsilon / 2)


CURATOR_FAULTS: dict[CuratorPromise, tuple[type[Bernoulli], type[Curator]]] = {
    debiases_what_it_says_of_the_mean: (Lopsided, BernoulliCurator),
    tells_possible_responses_from_others: (Wordless, WordlessCurator),
    draws_what_the_law_says: (Generous, GenerousCurator),
    goes_through_json_without_loss: (Shrinking, BernoulliCurator),
}


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("promise", CURATOR_FAULTS, ids=name)
def test_the_contract_finds_a_mechanism_that_breaks_it(promise: CuratorPromise) -> None:
    """Each fault that is planted is found by the promise that it breaks."""
    mechanism, curator = CURATOR_FAULTS[promise]
    MECHANISMS.register(mechanism)
    CURATORS._by_mechanism[mechanism] = curator
    with pytest.raises(AssertionError):
        promise(CuratorSpec(mechanism(1.0)))


@dataclass(frozen=True)
class Moody(Rule):
    """FAULT: an index that is not a function of its arguments."""

    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()

    @staticmethod
    def index(arm: ArmView, random: Random, parameters: Parameters) -> float:
        """Look at something that the compiled loop has frozen."""
        return float(MOOD) * arm.pulls


MOOD = 1.0


def test_the_contract_finds_a_rule_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A global that changes is compiled as it was: live and compiled drift apart, and that is found."""
    plays_the_same_live_and_compiled(Moody())
    monkeypatch.setitem(globals(), "MOOD", -1.0)
    with pytest.raises(AssertionError):
        plays_the_same_live_and_compiled(Moody())


@dataclass(frozen=True)
class Unchecked(Bernoulli):
    """A mechanism that checks nothing, not even its epsilon."""

    kind: ClassVar[str] = "unchecked"

    def __post_init__(self) -> None:
        """Check nothing."""


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("epsilon", [-100, 0, "1", None, float("nan"), 1e9])
def test_no_mechanism_gets_by_with_an_epsilon_that_is_none(epsilon: Any) -> None:
    """Whatever a mechanism of one's own checks: an epsilon below 0 would give a device's budget back."""
    MECHANISMS.register(Unchecked)
    with pytest.raises(SpecError, match="epsilon must be finite and > 0"):
        CuratorSpec(Unchecked(epsilon))


@pytest.mark.usefixtures("own")
def test_a_rule_that_checks_nothing_is_checked_when_it_is_read() -> None:
    """A server must not keep an experiment whose rule no agent takes: it could not be started again."""

    @dataclass(frozen=True)
    class Bold(Moody):
        kind: ClassVar[str] = "bold"

    RULES.register(Bold)
    assert rule_from_json("bold") == Bold()
    for floor in (-1, "x", None):
        with pytest.raises(SpecError, match="floor"):
            rule_from_json({"kind": "bold", "floor": floor})


@pytest.mark.usefixtures("own")
def test_what_a_kind_raises_about_its_numbers_is_about_the_spec() -> None:
    """A ParameterError of a check that knows nothing of specs is a SpecError where JSON is read."""

    @dataclass(frozen=True)
    class Picky(Bernoulli):
        kind: ClassVar[str] = "picky"

        def __post_init__(self) -> None:
            raise ParameterError("nothing is good enough")

    MECHANISMS.register(Picky)
    with pytest.raises(SpecError, match="nothing is good enough"):
        CuratorSpec.from_json({"mechanism": "picky", "epsilon": 1})


@pytest.mark.usefixtures("own")
def test_a_curator_shows_the_call_that_makes_it() -> None:
    """Also the numbers that a mechanism of one's own has beside epsilon."""

    @dataclass(frozen=True)
    class Lettered(Bernoulli):
        letter: str = "a"
        kind: ClassVar[str] = "lettered"

    class LetteredCurator(Curator):
        mechanism = Lettered

        def _privatise(self, *_: Any) -> Response:
            return Response(0.0)

    MECHANISMS.register(Lettered)
    CURATORS.register(LetteredCurator)
    made = curator_from_json({"mechanism": "lettered", "epsilon": 1, "letter": "b"})
    assert repr(made) == "LetteredCurator(epsilon=1.0, letter='b', transform=Range(low=0.0, high=1.0))"


@pytest.mark.parametrize(
    ("registry", "kind"), [(MECHANISMS, Laplace), (TRANSFORMS, Range), (RULES, next(iter(RULES)))], ids=name
)
@pytest.mark.usefixtures("own")
def test_a_name_stands_for_one_class(registry: Registry[Any], kind: Any) -> None:
    """A second class of the same kind is refused; the same class may be registered again, as a notebook does."""
    with pytest.raises(SpecError, match="there is already a"):
        registry.register(dataclass(frozen=True)(type("Impostor", (kind,), {"__slots__": ()})))
    assert registry.register(kind) is kind
