"""Public data on both sides of the trust boundary: mechanisms, transforms, curators and the protocol."""
