from ldpbandits.admin.admin import Admin
from ldpbandits.agent.agent import Agent
from ldpbandits.agent.inference.estimates import Estimate, estimate
from ldpbandits.agent.rules import (
    IMED,
    KLUCB,
    UCB,
    KLUCBPlus,
    Rule,
    Thompson,
    default_rule,
    ldp_ucb_b,
    ldp_ucb_l,
    paper_rule,
    ucb1,
)
from ldpbandits.device.async_client import AsyncClient, AsyncPull
from ldpbandits.device.client import Client, Pull
from ldpbandits.device.curators import BernoulliCurator, Curator, LaplaceCurator, curator_from_json
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Flushed
from ldpbandits.errors import (
    ArmError,
    DatabaseError,
    LDPBanditsError,
    LedgerError,
    LimitError,
    MissingExtra,
    OutputError,
    ParameterError,
    ResponseError,
    RewardError,
    ServerError,
    SnapshotError,
    SpecError,
    TicketError,
)
from ldpbandits.spec.allowance import sign_allowance
from ldpbandits.spec.curator import CuratorSpec, Guarantee
from ldpbandits.spec.mechanisms import Mechanism
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.transforms import Range, RealLine, Sigmoid, Threshold, Transform
from ldpbandits.types import Arm, Response, Reward

__version__: str

__all__ = [
    "IMED",
    "KLUCB",
    "UCB",
    "Admin",
    "Agent",
    "Arm",
    "ArmError",
    "AsyncClient",
    "AsyncPull",
    "BernoulliCurator",
    "Client",
    "Curator",
    "CuratorSpec",
    "DatabaseError",
    "Estimate",
    "Flushed",
    "Guarantee",
    "KLUCBPlus",
    "LDPBanditsError",
    "LaplaceCurator",
    "Ledger",
    "LedgerError",
    "LimitError",
    "Limits",
    "Mechanism",
    "Menu",
    "MissingExtra",
    "OutputError",
    "ParameterError",
    "Pull",
    "Range",
    "RealLine",
    "Response",
    "ResponseError",
    "Reward",
    "RewardError",
    "Rule",
    "ServerError",
    "Sigmoid",
    "SnapshotError",
    "SpecError",
    "Thompson",
    "Threshold",
    "TicketError",
    "Transform",
    "__version__",
    "curator_from_json",
    "default_rule",
    "estimate",
    "ldp_ucb_b",
    "ldp_ucb_l",
    "paper_rule",
    "sign_allowance",
    "ucb1",
]
