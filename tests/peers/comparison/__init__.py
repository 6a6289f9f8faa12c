"""The comparison with other transfer engines. Each module is one concept; `cli` puts them together."""
