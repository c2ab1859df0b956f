"""Pictures as texts: a character for each pixel and channel, in one order.

    images:KIND[:SIZE[:COUNT[:SEED]]][:blocks]       drawn here; KIND is digits, shapes, textures, colors or pathfinder
    images:FOLDER[:blocks]                           PNG files of one size, with the extra `seqloom[images]`

    text = FRAME + characters of the numbers 0 … 255 of a picture                          FRAME says where it begins

Rows from the top, pixels from the left, red, green and blue of a pixel one after the other; with `blocks` the pixels of
a square of a quarter of the size come together, squares in that order (the block raster of the Image Transformer).
"""

from seqloom.data.pictures.draw import KINDS, Drawn, draw_pictures
from seqloom.data.pictures.source import PREFIX, Pictures, read_pictures
from seqloom.data.pictures.text import FRAME, decode_picture, encode_picture

__all__ = [
    "FRAME",
    "KINDS",
    "PREFIX",
    "Drawn",
    "Pictures",
    "decode_picture",
    "draw_pictures",
    "encode_picture",
    "read_pictures",
]
