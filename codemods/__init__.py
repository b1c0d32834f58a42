"""The optimizations, one module each; ask `speedpatch.registry` for them."""
