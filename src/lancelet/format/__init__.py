"""Wire messages and the mapping between Lance schemas and Arrow schemas."""

from lancelet.format.schema import Field, Schema, schema_from_arrow

__all__ = ["Field", "Schema", "schema_from_arrow"]
