"""From a page's layout to its decoder, in file versions 2.1 and 2.2.

Codecs that came with 2.3 are refused in the pages of older files, as pylance refuses them.
"""

from __future__ import annotations

from lancelet.encoding.place import Place
from lancelet.encoding.v2_1.blob import BlobPage
from lancelet.encoding.v2_1.codecs import plain_runs
from lancelet.encoding.v2_1.constant import ConstantPage
from lancelet.encoding.v2_1.fullzip import FullZipPage
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder
from lancelet.format.proto import encodings21_pb2 as pb


def open_layout(layout: pb.PageLayout, context: PageContext) -> pb.MiniBlockLayout | PageDecoder:
    """The decoder of a page; of a mini-block page only its layout, for such pages are read in runs."""
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            return layout.mini_block_layout
        case "full_zip_layout":
            return FullZipPage(layout.full_zip_layout, context)
        case "constant_layout":
            return ConstantPage(layout.constant_layout, context)
        case "blob_layout":
            return BlobPage(layout.blob_layout, context)
        case _:
            raise context.place.unsupported("the page's layout is not known")


def open_older(message: bytes, context: PageContext) -> pb.MiniBlockLayout | PageDecoder:
    """The decoder of a page that a ``PageLayout`` describes."""
    layout = pb.PageLayout.FromString(message)
    _refuse_newer(layout, context.place)
    return open_layout(layout, context)


def _refuse_newer(layout: pb.PageLayout, place: Place) -> None:
    """Files of 2.1 and 2.2 have no codecs of 2.3."""
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
