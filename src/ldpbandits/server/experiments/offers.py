"""The offer of an experiment: what a device needs to know before it asks for an arm, the same for everybody.

A device checks its owner's limits and budget against the offer, and asks for a decision only if it will take part. The
offer has no ticket and needs no key, so any cache may keep it. Its version is a digest of its other fields: all workers
agree on it, and none stores it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from ldpbandits.server.api.messages import NamedArm, OfferMessage
from ldpbandits.server.experiments.live import LiveExperiment

VERSION_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class EncodedOffer:
    """The reply to a request for the offer: its JSON, and the headers by which caches keep it."""

    version: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    def is_known(self, headers: Mapping[bytes, bytes]) -> bool:
        """Tell whether the client has this version already (If-None-Match)."""
        tags = headers.get(b"if-none-match", b"")
        return any(tag.strip().removeprefix(b"W/") == b'"%s"' % self.version.encode() for tag in tags.split(b","))


def make_offer(experiment: LiveExperiment, max_age: int) -> EncodedOffer:
    """Return the present offer of an experiment, which caches may keep for `max_age` seconds."""
    shipped, settings = experiment.shipped, experiment.settings
    is_shipped = shipped is not None and experiment.status == "shipped"
    offer = OfferMessage(
        experiment=experiment.name,
        version="",
        status=experiment.status,
        curator=experiment.curator,
        default=experiment.default_reward,
        report_after=settings.report_after,
        sticky=settings.sticky,
        ticket_lifetime=experiment.ticket_lifetime,
        allowance_required=settings.allowance_required,
        shipped=NamedArm(shipped, experiment.records[shipped].name) if is_shipped and shipped is not None else None,
        retired=[number for number, arm in enumerate(experiment.arms) if arm.retired],
        max_age=max_age,
    )
    version = sha256(msgspec.json.encode(offer)).hexdigest()[:VERSION_CHARACTERS]
    tag = b'"%s"' % version.encode()
    headers = ((b"etag", tag), (b"cache-control", b"public, max-age=%d" % max_age))
    return EncodedOffer(version, msgspec.json.encode(msgspec.structs.replace(offer, version=version)), headers)
