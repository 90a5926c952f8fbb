"""The HTTP interface: its table of operations, its messages, and how both become replies."""
