"""Real peers of Mooncake against our node: see `tests/interop/full --help`."""
