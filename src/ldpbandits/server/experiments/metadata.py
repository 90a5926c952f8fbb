"""Metadata of an experiment: title, owner and the like, which people write for each other and may change."""

from dataclasses import asdict, replace
from datetime import date

import msgspec

from ldpbandits.errors import DatabaseError, ParameterError
from ldpbandits.server.api.messages import NewMetadata
from ldpbandits.spec.messages import Metadata


def changed(before: Metadata, new: NewMetadata) -> Metadata:
    """Return metadata with the given fields; those that are null stay as they were."""
    if new.planned_end:
        try:
            date.fromisoformat(new.planned_end)
        except ValueError:
            raise ParameterError(f"planned_end must be a day such as 2026-12-24, got {new.planned_end}") from None
    given = {name: getattr(new, name) for name in new.__struct_fields__}
    return replace(before, **{name: text.strip() for name, text in given.items() if text is not None})


def difference(before: Metadata, after: Metadata) -> str:
    """Return the fields that differ, with their new texts, in one line for the change log."""
    old, new = asdict(before), asdict(after)
    return "; ".join(f"{name}: {' '.join(new[name].split())}" for name in new if new[name] != old[name])


def to_json(metadata: Metadata) -> str:
    """Serialise metadata for the store, without what is empty."""
    return msgspec.json.encode({name: text for name, text in asdict(metadata).items() if text}).decode()


def from_json(text: str) -> Metadata:
    """Parse the metadata of a store."""
    try:
        return msgspec.json.decode(text, type=Metadata)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DatabaseError(f"the metadata of an experiment cannot be read: {error}") from None
