"""Sets of fragment ids, under pylance's name."""

from lancelet._api.bitmap import Bitmap

__all__ = ["Bitmap"]
