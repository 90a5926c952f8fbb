"""The store in PostgreSQL, which many workers share."""
