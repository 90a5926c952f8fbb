"""Workers that share a database: how each polls what the others did."""
