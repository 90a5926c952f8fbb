"""Tell systemd that the server is ready, where it asks for that (Type=notify)."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state such as READY=1 to the socket that systemd names; nothing where it names none, and no error."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.connect("\0" + address[1:] if address[0] == "@" else address)
        told.sendall(state.encode())
