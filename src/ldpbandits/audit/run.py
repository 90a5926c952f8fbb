"""The whole audit: which layers are run for which subject."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeGuard

from ldpbandits.audit import blackbox, exact, formulas, ours, replay
from ldpbandits.audit.claim import Claim
from ldpbandits.audit.domain import check_covered, ends
from ldpbandits.audit.memory import memory_layer
from ldpbandits.audit.profile import Profile
from ldpbandits.audit.refusals import in_process, refusal_layer
from ldpbandits.audit.result import Audit, Layer
from ldpbandits.audit.sampling import Ours
from ldpbandits.audit.streams import fork_layer, seed_layer
from ldpbandits.audit.subject import Respond, Subject, asking, making
from ldpbandits.audit.timing import timing_layer
from ldpbandits.device.curators import BernoulliCurator, Curator, LaplaceCurator, curator_from_json
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

OUR_SAMPLES = 10_000_000
OTHERS_SAMPLES = 200_000
Progress = Callable[[int], None]


def audit(  # noqa: PLR0913 - a claim, what supports it, and how hard to look
    respond: Curator | Respond | Subject,
    rewards: Sequence[float] | None = None,
    epsilon: float | None = None,
    *,
    samples: float | None = None,
    confidence: float = 0.999,
    spec: CuratorSpec | None = None,
    law: exact.Law | None = None,
    another_user: Callable[[], Respond] | None = None,
    seed: int | None = None,
    progress: Progress = lambda _done: None,
) -> Audit:
    """Check the claim that `respond` is epsilon-LDP between the rewards given.

    `respond` is one of our curators, or any function from a reward to a response. `rewards` are those to tell apart: by
    default the ends of the curator's range, or 0 and 1. `samples` responses are drawn to each reward on average: each
    call gets a reward chosen at random. The chance of a false alarm is at most 1 - confidence.

    `spec` says which of our curators the function claims to be, so that its mean, its variance and its refusals
    can be checked; `law`, the exact probability of each response for each reward, so that the claim can be proved;
    `another_user`, a function that makes the curator of another user, whether users share their noise. With a `seed`,
    for tests, bulk sampling and the choice of rewards can be repeated; without, all is the operating system's.
    """
    started = perf_counter()
    subject = _subject(respond, spec, another_user)
    claim = Claim.of(
        _epsilon(epsilon, subject.spec),
        _rewards(subject.spec) if rewards is None else rewards,
        (OUR_SAMPLES if _is_ours(respond) else OTHERS_SAMPLES) if samples is None else samples,
        confidence,
        seed,
    )
    check_covered(subject.spec, claim.rewards)
    if _is_ours(respond):
        bulk, sanity, profiles = _of_ours(respond, subject, claim, progress)
    else:
        bulk, sanity, profiles = _of_others(subject, claim, law, progress)
    attacks = [check(subject, claim) for check in (fork_layer, seed_layer, memory_layer, refusal_layer, timing_layer)]
    layers = (*bulk, *attacks, *sanity)
    return Audit(subject.what, claim.epsilon, confidence, claim.samples, perf_counter() - started, layers, profiles)


def _of_ours(
    curator: Ours, subject: Subject, claim: Claim, progress: Progress
) -> tuple[list[Layer], list[Layer], tuple[Profile, ...]]:
    """Draw in bulk from the device's law, and a few responses from the device itself."""
    counted = ours.tally(curator, claim, progress)
    device = blackbox.sample(subject, formulas.on_device(claim), lambda _done: None)
    shares = claim.alpha("device event"), claim.alpha("device low bits")
    bulk = [
        exact.of_curator(curator, claim.epsilon),
        replay.replay_layer(curator, claim),
        *ours.layers(curator, counted, claim),
        *blackbox.layers(device, claim.epsilon, *shares, where=" on the device"),
        blackbox.precision_layer(device, claim),
        blackbox.before_layer(device, claim),
    ]
    sanity = [
        ours.sanity_layer(curator, counted, claim),
        formulas.sanity_layer("sanity: the device's own code", curator.spec, device, claim.alpha("device")),
    ]
    return bulk, sanity, ours.profiles(counted, claim)


def _of_others(
    subject: Subject, claim: Claim, law: exact.Law | None, progress: Progress
) -> tuple[list[Layer], list[Layer], tuple[Profile, ...]]:
    """Draw responses one by one, and look at nothing else."""
    sample = blackbox.sample(subject, claim, progress)
    proved = (
        Layer("exact", "not applicable", "only responses are seen; give law, the probability of each, to prove a claim")
        if law is None
        else exact.of_law(law, claim, sample)
    )
    bound, spec = claim.alpha("bound"), subject.spec
    name = "sanity: mean and variance"
    if spec is None:
        guess, sanity = [], Layer(name, "not applicable", "give spec, the curator it claims to be")
    else:
        bound /= 2  # one half for the guess that suits the claim, one for whatever the responses suggest
        guess = [formulas.guess_layer(spec, sample, claim, bound)]
        sanity = formulas.sanity_layer(name, spec, sample, claim.alpha("sanity"))
    seen = [
        *guess,
        *blackbox.layers(sample, claim.epsilon, bound, claim.alpha("low bits")),
        blackbox.precision_layer(sample, claim),
        blackbox.before_layer(sample, claim),
    ]
    return [proved, *seen], [sanity], blackbox.profiles(sample)


def _subject(
    respond: Curator | Respond | Subject, spec: CuratorSpec | None, another_user: Callable[[], Respond] | None
) -> Subject:
    if isinstance(respond, Subject):
        return respond
    function: Respond
    if isinstance(respond, Curator):
        function, what, spec = respond.respond, repr(respond), respond.spec if spec is None else spec
        if another_user is None and _is_ours(respond):
            another_user = _maker(respond.spec)
    elif callable(respond):
        function, what = respond, getattr(respond, "__qualname__", repr(respond))
    else:
        raise ParameterError("respond must be a curator, or a function from a reward to a response")
    make = None if another_user is None else making(another_user)
    return Subject(what, asking(function), lambda reward: in_process(function, reward), make, function, spec)


def _maker(spec: CuratorSpec) -> Callable[[], Respond]:
    return lambda: curator_from_json(spec).respond


def _is_ours(respond: object) -> TypeGuard[Ours]:
    """Tell whether this is known by its code; a subclass may respond in ways of its own."""
    return type(respond) in {BernoulliCurator, LaplaceCurator}


def _epsilon(epsilon: float | None, spec: CuratorSpec | None) -> float:
    if epsilon is not None:
        return epsilon
    if spec is None:
        raise ParameterError("epsilon is needed: what does this function claim?")
    return spec.epsilon


def _rewards(spec: CuratorSpec | None) -> tuple[float, float]:
    return (0.0, 1.0) if spec is None else ends(spec)
