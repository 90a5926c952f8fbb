"""What both sides of the trust boundary may know: mechanisms, transforms, curators and the protocol, as public data."""
