"""Multi-armed bandits with local differential privacy: learn which arm is best without seeing anyone's reward.

Each public name is imported when it is first used, so that a device loads no agent and no asyncio. `__init__.pyi` has
the same names for type checkers.
"""

from importlib import import_module

__version__ = "0.1.0"

_MODULES = {
    "admin.admin": ("Admin",),
    "agent.agent": ("Agent",),
    "agent.inference.estimates": ("Estimate", "estimate"),
    "agent.rules": (
        "IMED",
        "KLUCB",
        "KLUCBPlus",
        "Rule",
        "Thompson",
        "UCB",
        "default_rule",
        "ldp_ucb_b",
        "ldp_ucb_l",
        "paper_rule",
        "ucb1",
    ),
    "device.async_client": ("AsyncClient", "AsyncPull"),
    "device.client": ("Client", "Pull"),
    "device.curators": ("BernoulliCurator", "Curator", "LaplaceCurator", "curator_from_json"),
    "device.ledger": ("Ledger",),
    "device.limits": ("Limits",),
    "device.outbox": ("Flushed",),
    "errors": (
        "ArmError",
        "DatabaseError",
        "LDPBanditsError",
        "LedgerError",
        "LimitError",
        "MissingExtra",
        "OutputError",
        "ParameterError",
        "ResponseError",
        "RewardError",
        "ServerError",
        "SnapshotError",
        "SpecError",
        "TicketError",
    ),
    "spec.allowance": ("sign_allowance",),
    "spec.curator": ("CuratorSpec", "Guarantee"),
    "spec.mechanisms": ("Mechanism",),
    "spec.menu": ("Menu",),
    "spec.transforms": ("Range", "RealLine", "Sigmoid", "Threshold", "Transform"),
    "types": ("Arm", "Response", "Reward"),
}
"""The public names, by the module that defines them."""

_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605 - one list of names is enough


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
