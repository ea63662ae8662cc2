"""From a page's encoding message to its decoder, in 2.1 and later.

The message is an Any whose type names the file version's grammar: ``PageLayout``
for 2.1 and 2.2, ``PlanarLayout`` for the unstable 2.3, whose dense pages are the
2.2 layouts in other words (spec encodings.md 10.3).
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from lancelet.encoding.v2_1.layouts import open_older
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings21_pb2 as pb


def open_page(encoding: column_pb2.Encoding, context: PageContext) -> pb.MiniBlockLayout | PageDecoder:
    """The decoder of a page; of a mini-block page only its layout, for such pages are read in runs."""
    place = context.place
    if encoding.WhichOneof("location") != "direct":
        raise place.corrupt("a page without an encoding")
    try:
        described = column_pb2.AnyMessage.FromString(encoding.direct.encoding)
        match described.type_url.rpartition("/")[2]:
            case "lance.encodings21.PageLayout":
                return open_older(described.value, context)
            case "lance.encodings23.PlanarLayout":
                # Few files are of the unstable version, and its modules take a tenth of the time that others take to load.
                from lancelet.encoding.v2_3.layouts import open_planar

                return open_planar(described.value, context)
            case name:
                raise place.unsupported(f"page encoding '{name}' does not belong to this file version")
    except DecodeError as error:
        raise place.corrupt(f"the page's encoding does not parse: {error}") from None
