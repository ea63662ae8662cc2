"""From a page's encoding message to its decoder.

The message is an Any whose type names the file version's grammar: ``PageLayout``
for 2.1 and 2.2, ``PlanarLayout`` for the unstable 2.3, whose dense pages are the
2.2 layouts in other words (spec encodings.md 10.3).
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from lancelet.encoding.place import Place
from lancelet.encoding.v2_1.blob import BlobPage
from lancelet.encoding.v2_1.constant import ConstantPage
from lancelet.encoding.v2_1.fullzip import FullZipPage
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder
from lancelet.errors import NotSupported
from lancelet.format.proto import column_pb2, encodings23_pb2
from lancelet.format.proto import encodings21_pb2 as pb

_UNSTABLE = "of the unstable file version 2.3 that is not known; write the table with data_storage_version='2.2'"


def open_page(layout: pb.PageLayout, context: PageContext) -> PageDecoder:
    """The decoder of a page by itself; mini-block pages are read in runs."""
    place = context.place
    match layout.WhichOneof("layout"):
        case "full_zip_layout":
            return FullZipPage(layout.full_zip_layout, context)
        case "constant_layout":
            return ConstantPage(layout.constant_layout, context)
        case "blob_layout":
            return BlobPage(layout.blob_layout, context)
        case _:
            raise place.unsupported("the page's layout is not known")


def parse_layout(encoding: column_pb2.Encoding, place: Place) -> pb.PageLayout:
    if encoding.WhichOneof("location") != "direct":
        raise place.corrupt("a page without an encoding")
    try:
        described = column_pb2.AnyMessage.FromString(encoding.direct.encoding)
        match described.type_url.rpartition("/")[2]:
            case "lance.encodings21.PageLayout":
                layout = pb.PageLayout.FromString(described.value)
            case "lance.encodings23.PlanarLayout":
                layout = _from_planar(encodings23_pb2.PlanarLayout.FromString(described.value), place)
            case name:
                raise place.unsupported(f"page encoding '{name}' does not belong to this file version")
    except DecodeError as error:
        raise place.corrupt(f"the page's encoding does not parse: {error}") from None
    return layout


def _from_planar(planar: encodings23_pb2.PlanarLayout, place: Place) -> pb.PageLayout:
    """Say a dense 2.3 page in the words of 2.2."""
    structure, values = planar.structure, planar.values
    if structure.WhichOneof("kind") == "sparse":
        raise NotSupported(f"{place.path}, {place.where}: a sparse layout {_UNSTABLE}")
    layers = structure.dense.layers
    match values.WhichOneof("kind"):
        case "chunked":
            chunked = values.chunked
            mini = pb.MiniBlockLayout(
                value_compression=chunked.values,
                num_dictionary_items=chunked.num_dictionary_items,
                layers=layers,
                num_buffers=chunked.num_buffers,
                repetition_index_depth=chunked.levels.repetition_index_depth,
                num_items=chunked.num_items,
                has_large_chunk=True,
            )
            if chunked.levels.HasField("repetition"):
                mini.rep_compression.CopyFrom(chunked.levels.repetition)
            if chunked.levels.HasField("definition"):
                mini.def_compression.CopyFrom(chunked.levels.definition)
            if chunked.HasField("dictionary"):
                mini.dictionary.CopyFrom(chunked.dictionary)
            return pb.PageLayout(mini_block_layout=mini)
        case "zipped":
            zipped = values.zipped
            full = pb.FullZipLayout(
                bits_rep=zipped.levels.bits_rep,
                bits_def=zipped.levels.bits_def,
                num_items=zipped.num_items,
                num_visible_items=zipped.num_visible_items,
                value_compression=zipped.values,
                layers=layers,
            )
            if zipped.WhichOneof("details") == "bits_per_value":
                full.bits_per_value = zipped.bits_per_value
            else:
                full.bits_per_offset = zipped.bits_per_offset
            return pb.PageLayout(full_zip_layout=full)
        case "constant":
            return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers, inline_value=values.constant.scalar))
        case "none":
            return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers))
        case _:
            raise NotSupported(f"{place.path}, {place.where}: a layout {_UNSTABLE}")
