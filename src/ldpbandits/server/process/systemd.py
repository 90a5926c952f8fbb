"""Notifies systemd that the server is ready (Type=notify)."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state such as READY=1 to systemd's socket, if there is one; ignore errors."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.connect("\0" + address[1:] if address[0] == "@" else address)
        notifier.sendall(state.encode())
