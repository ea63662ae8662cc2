"""The first half of the model of a vector index, under pylance's name."""

from lancelet._api.ivf_model import IvfModel

__all__ = ["IvfModel"]
