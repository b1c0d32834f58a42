"""Program facts: what is a model, an optimizer, a loss, a training loop, read from use and never from names."""

from speedpatch.facts.facts import Facts, build_facts

__all__ = ["Facts", "build_facts"]
