"""One deadline for a whole exchange, whatever the server does."""

import socket
from threading import Thread
from time import monotonic

import pytest

from ldpbandits import ParameterError
from ldpbandits.net import Connection, ServerAddress, bearer_header


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://agent.example", ServerAddress(is_secure=False, host="agent.example", port=80, prefix="")),
        ("https://agent.example:8443/", ServerAddress(is_secure=True, host="agent.example", port=8443, prefix="")),
        ("https://[2001:db8::1]", ServerAddress(is_secure=True, host="2001:db8::1", port=443, prefix="")),
        ("http://[::1]:8000/a b/", ServerAddress(is_secure=False, host="::1", port=8000, prefix="/a%20b")),
    ],
)
def test_an_address_is_read_from_a_url(url: str, address: ServerAddress) -> None:
    """Its host, its port, and what stands before each path; a connection is to that host and port."""
    assert ServerAddress.from_url(url) == address
    assert (address.connection().host, address.connection().port) == (address.host, address.port)


def test_a_secure_address_is_asked_by_tls() -> None:
    """On the port of HTTPS, unless another is given."""
    assert ServerAddress.from_url("https://x").connection().port == 443
    assert ServerAddress.from_url("http://x").connection().port == 80
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, hello = listener.getsockname()[1], []

        def hang_up() -> None:
            with listener.accept()[0] as other:
                hello.append(other.recv(3))

        thread = Thread(target=hang_up)
        thread.start()
        connection = ServerAddress.from_url(f"https://127.0.0.1:{port}").connection()
        connection.set_deadline(monotonic() + 20)
        with pytest.raises(OSError):  # noqa: PT011 - of TLS, whose words differ
            connection.request("GET", "/", headers=bearer_header("key"))
        connection.close()
        thread.join()
    assert hello == [b"\x16\x03\x01"]  # the first bytes of TLS: the key was not sent in the clear


def test_nothing_is_done_without_a_deadline() -> None:
    """Who forgets to set one is told at once."""
    with pytest.raises(TimeoutError, match="timed out"):
        Connection("127.0.0.1", 9).connect()


def test_each_address_of_a_host_is_tried_in_its_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer leaves time for the next, and the last failure is what is said."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead, alive = closed.getsockname(), listener.getsockname()
        found = {"both": [dead, alive], "dead": [dead], "none": []}

        def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in found[host]]

        monkeypatch.setattr("ldpbandits.net.getaddrinfo", getaddrinfo)
        connection = Connection("both", 1)
        connection.set_deadline(monotonic() + 20)
        connection.connect()
        assert connection.sock.getpeername() == alive
        connection.close()
        for host, told in (("dead", "refused"), ("none", "has no address")):
            connection = Connection(host, 1)
            connection.set_deadline(monotonic() + 20)
            with pytest.raises(OSError, match=told):
                connection.connect()


def test_a_key_that_cannot_be_in_a_header_is_refused() -> None:
    """And not shown."""
    assert bearer_header("key") == {"Authorization": "Bearer key"}
    with pytest.raises(
        ParameterError, match=r"^a key must not be empty, and is made of ASCII letters, digits and signs$"
    ):
        bearer_header("one\r\nTwo: three")
