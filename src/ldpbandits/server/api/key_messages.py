"""Messages on the keys of people and machines; those of shared keys are with all others."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ldpbandits.server.api.messages import Name
from ldpbandits.server.api.validation import WORDS
from ldpbandits.server.keys import HOLDER_PATTERN

_HOLDER = "at most 100 lower-case letters, digits and @ . _ + -, starting with a letter or digit"
HolderName = Annotated[
    str, Meta(pattern=HOLDER_PATTERN, description=_HOLDER, examples=["anna"], extra={WORDS: _HOLDER})
]
MOST_EDITED = 1000
"""Experiments that one editor may change; an admin may change all."""


class KeyRights(Struct, frozen=True, forbid_unknown_fields=True):
    """The rights of a key. An editor reads everything, and creates, changes and deletes experiments of these names."""

    role: Literal["admin", "editor", "viewer"]
    experiments: Annotated[list[Name], Meta(max_length=MOST_EDITED)] = []


class NewHolder(Struct, frozen=True, forbid_unknown_fields=True):
    """A person or a machine that gets a key: the name is that of the change log, such as an address of email."""

    name: HolderName
    role: Literal["admin", "editor", "viewer"]
    experiments: Annotated[list[Name], Meta(max_length=MOST_EDITED)] = []
