"""The six data sets of Figure 3: where their files come from, what they must look like, and what to call each copy."""

from dataclasses import dataclass

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"


@dataclass(frozen=True)
class Copy:
    """One file that can serve as a data set's training part.

    ``note`` is empty for LIBSVM's own file; otherwise it is shown in brackets behind the data set's name, everywhere.
    """

    file: str
    rows: int
    sha256: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Download:
    """A file on LIBSVM's page. Hashes are of the file as served, so a compressed file is checked before unpacking."""

    file: str
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class LibsvmSet:
    """A data set of the catalogue; ``copies`` are in order of preference, LIBSVM's own text first."""

    name: str
    features: int
    classes: int
    copies: tuple[Copy, ...]
    downloads: tuple[Download, ...]


_GLASS = "7c847cf67bc3dceda40890c37044cc569b2603c2ca4508e01faeaa0d521e52e5"
_VEHICLE = "f5bcfc5545c0f674b372e8dc3e41752efa287d4e04cb920150c51cd9c3df7b86"
_VOWEL = "89ecbd4590cabc23b001cbd2d90128efe3c8ad02540ce1a08ef367b98d765585"
_LETTER = "ce2c7df15cc5742dc4382d59079181c97c21e0beaa0af53c84cc5745c69f1020"
_PROTEIN_PART = "be81075823b330bba2e9a53ea2ca5aba391271539b2d6a77672b3b2aece9fc6b"
_USPS_MADE = "caec874fbcdcd11751576c8579376130f7555dd1ce150bc52e7a9727e4172409"
_USPS_PAGE = "ec16c51db3855ca6c91edd34d0e9b197"
_USPS_TEST = "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e"

_COPIES: dict[str, tuple[Copy, ...]] = {
    "glass": (Copy("glass.scale", 214, _GLASS),),
    "letter": (Copy("letter.scale", 15000, _LETTER),),
    "protein": (Copy("protein", 17766), Copy("protein.val.from_mat", 2871, _PROTEIN_PART, note="2,871-row part")),
    "usps": (Copy("usps", 7291), Copy("usps.reconstructed.bz2", 7291, _USPS_MADE, note="reconstructed")),
    "vehicle": (Copy("vehicle.scale", 846, _VEHICLE),),
    "vowel": (Copy("vowel.scale", 528, _VOWEL),),
}
_DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "glass": (Download("glass.scale", _GLASS),),
    "letter": (Download("letter.scale", _LETTER), Download("letter.scale.t")),
    "protein": (Download("protein.bz2"), Download("protein.t.bz2")),
    "usps": (Download("usps.bz2", md5=_USPS_PAGE), Download("usps.t.bz2", _USPS_TEST)),
    "vehicle": (Download("vehicle.scale", _VEHICLE),),
    "vowel": (Download("vowel.scale", _VOWEL), Download("vowel.scale.t")),
}
_SHAPES = {
    "glass": (9, 6),
    "letter": (16, 26),
    "protein": (357, 3),
    "usps": (256, 10),
    "vehicle": (18, 4),
    "vowel": (10, 11),
}

CATALOGUE: dict[str, LibsvmSet] = {
    name: LibsvmSet(name, *_SHAPES[name], _COPIES[name], _DOWNLOADS[name]) for name in _SHAPES
}
