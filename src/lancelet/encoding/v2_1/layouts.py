"""From a page's encoding message to its decoder.

The message is an Any whose type names the file version's grammar: ``PageLayout``
for 2.1 and 2.2, ``PlanarLayout`` for the unstable 2.3, whose dense pages are the
2.2 layouts in other words (spec encodings.md 10.3). Codecs that came with 2.3 are
refused in the pages of older files, as pylance refuses them.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from lancelet.encoding.place import Place
from lancelet.encoding.v2_1.blob import BlobPage
from lancelet.encoding.v2_1.codecs import plain_runs
from lancelet.encoding.v2_1.constant import ConstantPage
from lancelet.encoding.v2_1.fullzip import FullZipPage
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder
from lancelet.encoding.v2_3.null_items import NullItemsPage
from lancelet.encoding.v2_3.sparse import SparsePage
from lancelet.encoding.v2_3.translate import translate, zipped_layout
from lancelet.format.proto import column_pb2, encodings23_pb2
from lancelet.format.proto import encodings21_pb2 as pb


def open_page(layout: encodings23_pb2.Layout, context: PageContext) -> PageDecoder:
    """The decoder of a page by itself; mini-block pages are read in runs."""
    place = context.place
    match layout.WhichOneof("layout"):
        case "full_zip_layout":
            return FullZipPage(layout.full_zip_layout, context)
        case "constant_layout":
            return ConstantPage(layout.constant_layout, context)
        case "blob_layout":
            return BlobPage(layout.blob_layout, context)
        case "planar_layout":
            return _open_planar(layout.planar_layout, context)
        case _:
            raise place.unsupported("the page's layout is not known")


def parse_layout(encoding: column_pb2.Encoding, place: Place) -> encodings23_pb2.Layout:
    if encoding.WhichOneof("location") != "direct":
        raise place.corrupt("a page without an encoding")
    try:
        described = column_pb2.AnyMessage.FromString(encoding.direct.encoding)
        match described.type_url.rpartition("/")[2]:
            case "lance.encodings21.PageLayout":
                layout = encodings23_pb2.Layout.FromString(described.value)
                _refuse_newer(layout, place)
            case "lance.encodings23.PlanarLayout":
                layout = translate(encodings23_pb2.PlanarLayout.FromString(described.value), place)
            case name:
                raise place.unsupported(f"page encoding '{name}' does not belong to this file version")
    except DecodeError as error:
        raise place.corrupt(f"the page's encoding does not parse: {error}") from None
    return layout


def _open_planar(planar: encodings23_pb2.PlanarLayout, context: PageContext) -> PageDecoder:
    """The decoder of a 2.3 page that has no words in 2.2."""
    if planar.structure.WhichOneof("kind") == "sparse":
        return SparsePage(planar, context)
    full = zipped_layout(planar.values.zipped)
    full.layers.extend(planar.structure.dense.layers)
    return NullItemsPage(full, context)


def _refuse_newer(layout: encodings23_pb2.Layout, place: Place) -> None:
    """Files of 2.1 and 2.2 have no codecs and no layouts of 2.3."""
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            mini = layout.mini_block_layout
            codecs = [mini.value_compression, mini.rep_compression, mini.def_compression]
            if mini.HasField("dictionary"):
                codecs.append(mini.dictionary)
                if _is_list(mini.dictionary):
                    raise place.unsupported("a dictionary of lists belongs to file version 2.3")
        case "constant_layout":
            codecs = [layout.constant_layout.rep_compression, layout.constant_layout.def_compression]
        case "planar_layout":
            raise place.unsupported("the page's layout is not known")
        case _:
            return
    if any(_is_newer(codec) for codec in codecs):
        raise place.unsupported("its encoding belongs to file version 2.3")


def _is_newer(codec: pb.CompressiveEncoding) -> bool:
    match codec.WhichOneof("compression"):
        case "range" | "delta" | "dictionary":
            return True
        case "rle":
            return not plain_runs(codec.rle)
        case "variable":
            return bool(codec.variable.offsets.WhichOneof("compression") != "flat")
        case "general":
            return _is_newer(codec.general.values)
        case "fsst":
            return _is_newer(codec.fsst.values)
    return False


def _is_list(codec: pb.CompressiveEncoding) -> bool:
    kind = codec.WhichOneof("compression")
    return kind == "fixed_size_list" or (kind == "general" and _is_list(codec.general.values))
