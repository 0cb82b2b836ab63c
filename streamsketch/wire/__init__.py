"""The exchange format: bytes and tables of what is published, as WIRE.md describes them."""
