"""From a page's layout to its decoder, in file version 2.3."""

from __future__ import annotations

from lancelet.encoding.v2_1.layouts import open_layout
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder
from lancelet.encoding.v2_3.null_items import NullItemsPage
from lancelet.encoding.v2_3.sparse import SparsePage
from lancelet.encoding.v2_3.translate import translate, zipped_layout
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.proto import encodings23_pb2 as planar_pb


def open_planar(message: bytes, context: PageContext) -> pb.MiniBlockLayout | PageDecoder:
    """The decoder of a page that a ``PlanarLayout`` describes; that of 2.2 where its words suffice."""
    planar = planar_pb.PlanarLayout.FromString(message)
    layout = translate(planar, context.place)
    if layout is not None:
        return open_layout(layout, context)
    if planar.structure.WhichOneof("kind") == "sparse":
        return SparsePage(planar, context)
    full = zipped_layout(planar.values.zipped)
    full.layers.extend(planar.structure.dense.layers)
    return NullItemsPage(full, context)
