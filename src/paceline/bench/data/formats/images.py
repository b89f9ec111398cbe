"""JPEG and PNG: a grey square of random points for each record. What a JPEG gives back is near, but not equal."""

from __future__ import annotations

import io
import math
from typing import BinaryIO

import numpy as np
from PIL import Image

from paceline.bench.data.files import Files
from paceline.bench.data.formats import OpenRecordFile
from paceline.bench.data.record_contents import Bytes
from paceline.errors import InputError


class _Picture:
    _name = ""

    def __init__(self, files: Files) -> None:
        self._level = files.dataset.compression_level

    def encode(self, records: list[Bytes]) -> memoryview:
        """Return a file of one record."""
        (record,) = records
        side = math.isqrt(record.size)
        buffer = io.BytesIO()
        settings = {"compress_level": min(9, self._level)} if self._name == "PNG" else {"quality": 75}
        Image.fromarray(record.reshape(side, side)).save(buffer, self._name, **settings)
        return buffer.getbuffer()

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        with Image.open(io.BytesIO(content), formats=[self._name]) as picture:
            return np.asarray(picture).reshape(-1)

    def open(self, file: BinaryIO, number: int) -> OpenRecordFile:
        """Refuse: an image file holds one record."""
        raise InputError("an image file holds one sample")


class Jpeg(_Picture):
    """JPEG files."""

    _name = "JPEG"


class Png(_Picture):
    """PNG files."""

    _name = "PNG"


FORMATS = {"jpeg": Jpeg, "png": Png}
