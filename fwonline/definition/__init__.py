"""Definitions of streams: a TOML file becomes a source, a model, monitors, sinks and the loop that runs them."""

from fwonline.definition.stream import StreamDefinition, load_definition, read_definition

__all__ = ["StreamDefinition", "load_definition", "read_definition"]
