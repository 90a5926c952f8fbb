"""The offer: what a device needs to know before it asks, for any cache to keep."""

import pytest
from tests.server.local import CLIENT, CURATOR, NEW, E, Local

from ldpbandits.spec.protocol import NO_SUCH_PATH

FIELDS = {
    "experiment",
    "version",
    "status",
    "curator",
    "default",
    "report_after",
    "sticky",
    "ticket_lifetime",
    "allowance_required",
    "shipped",
    "retired",
    "max_age",
}


def offered(local: Local) -> dict[str, object]:
    """Read the offer as a device does."""
    reply = local("GET", f"{E}/offer", key=None)
    assert reply.status == 200, reply
    return dict(reply.json)


def test_anybody_can_read_what_will_be_asked_for(local: Local) -> None:
    """It needs no key, says what a decision says, and counts as nothing."""
    offer = offered(local)
    decision = local.decide()
    assert offer.keys() == FIELDS
    assert offer["experiment"] == "headline"
    assert offer["curator"] == decision["curator"] == CURATOR | {"transform": {"kind": "range", "low": 0, "high": 1}}
    for field in ("default", "report_after", "sticky"):
        assert offer[field] == decision[field]
    assert offer["version"] == decision["offer"]
    assert (offer["status"], offer["shipped"], offer["retired"], offer["max_age"]) == ("running", None, [], 60)
    assert offer["sticky"] == 7 * 24 * 3600
    assert local("GET", E).json["arms"][0]["decisions"] + local("GET", E).json["arms"][1]["decisions"] == 1


def test_a_cache_keeps_an_offer_and_asks_whether_it_has_changed(local: Local) -> None:
    """ETag is the version, pages of any origin may read it, and a client that has it gets 304 without a body."""
    reply = local("GET", f"{E}/offer", key=None)
    tag = reply.headers["etag"]
    assert tag == f'"{reply.json["version"]}"'
    assert reply.headers["cache-control"] == "public, max-age=60"
    assert reply.headers["access-control-allow-origin"] == "*"
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = local("GET", f"{E}/offer", key=None, **{"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in again.headers
    assert local("GET", f"{E}/offer", key=None, **{"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize(
    ("verb", "body", "field", "value"),
    [
        ("pause", {}, "status", "paused"),
        ("close", {}, "status", "closed"),
        ("ship", {"arm": "green"}, "shipped", {"arm": 1, "name": "green"}),
        ("arms/0/retire", {}, "retired", [0]),
    ],
)
def test_each_command_that_devices_must_follow_makes_a_new_version(
    local: Local, verb: str, body: object, field: str, value: object
) -> None:
    """Pause, close, ship and retire are in the next offer, under another version."""
    before = offered(local)
    assert local("POST", f"{E}/{verb}", body).status == 200
    after = offered(local)
    assert after[field] == value
    assert after["version"] != before["version"]
    if verb == "ship":
        assert local.decide()["offer"] == after["version"]
        local("POST", f"{E}/resume", {})
        assert offered(local) == before  # the same offer has the same version, whoever computes it


def test_an_experiment_that_there_is_not_has_no_offer(local: Local) -> None:
    """It is 404 in our own words, also after a deletion; a path that there is not is told apart, as on old servers."""
    old = local("GET", f"{E}/offered", key=None)
    assert (old.status, old.json["code"]) == (404, "not_found")
    assert old.json["message"].startswith(NO_SUCH_PATH)
    assert not local("GET", "/v1/experiments/x/offer", key=None).json["message"].startswith(NO_SUCH_PATH)
    assert local("GET", "/v1/experiments/other/offer", key=None).json["code"] == "not_found"
    local("DELETE", E)
    reply = local("GET", f"{E}/offer", key=None)
    assert (reply.status, reply.json["code"]) == (404, "not_found")


def test_two_experiments_of_one_definition_have_different_versions(local: Local) -> None:
    """The name is part of the digest."""
    local("POST", "/v1/experiments", NEW | {"name": "other"})
    other = local("GET", "/v1/experiments/other/offer", key=None).json
    assert other["version"] != offered(local)["version"]


def test_an_acceptance_needs_a_ticket_of_ours(local: Local) -> None:
    """It is accepted without a key; forged, expired and closed ones are refused in the words of responses."""
    ticket = local("POST", f"{E}/decisions", {}, CLIENT).json["ticket"]
    assert local("POST", "/v1/acceptances", {"ticket": ticket}, None).json == {"status": "accepted"}
    forged = local("POST", "/v1/acceptances", {"ticket": ticket[:-2] + "AA"}, None)
    assert (forged.status, forged.json["code"]) == (403, "forged")
    results = local("POST", "/v1/acceptances/batch", {"tickets": [local.decide()["ticket"], "forged"]}, None).json
    assert [each["status"] for each in results] == ["accepted", "refused"]
    local.now.seconds += 3600
    expired = local("POST", "/v1/acceptances", {"ticket": ticket}, None)
    assert (expired.status, expired.json["code"]) == (410, "expired")
