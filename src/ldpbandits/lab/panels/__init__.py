"""The panels of `reproduce` as data, those of the paper and those beyond it, and what is computed from them."""
