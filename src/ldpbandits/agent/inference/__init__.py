"""Inference: means, anytime-valid intervals and forecasts from private responses. Only agents compute them."""
