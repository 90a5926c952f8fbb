"""Is this curator really epsilon-LDP? `audit` checks ours or anyone's, and says plainly what it found.

    from ldpbandits.audit import audit
    print(audit(BernoulliCurator(epsilon=1.0)))
    print(audit(anything_that_maps_a_reward_to_a_response, rewards=(0, 1), epsilon=1.0))

Where to look: `checks.py` is the table of all checks. `blackbox/` has those that see responses only, `whitebox/` those
that know the mechanism or its code. Every lower bound of epsilon rests on the inequality in `guess.py`.

An audit needs the extra `lab`, and says so only when it is used: the command line reads its options without.
"""

from typing import TYPE_CHECKING, Any

from ldpbandits.extras import needs

if TYPE_CHECKING:
    from ldpbandits.audit.result import Audit, Layer
    from ldpbandits.audit.run import audit

__all__ = ["Audit", "Layer", "audit"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute may be anything
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs("lab", who="an audit"):
        from ldpbandits.audit import result, run  # noqa: PLC0415 - numpy and scipy, only for those who audit
    return getattr(run if name == "audit" else result, name)
