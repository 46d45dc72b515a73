"""The constants of the synthetic click stream: fitted to the first 1,999 real Criteo rows, and rounded.

`gradagrad_lab.data.clicks.stream` says what each number does. Cardinalities are those of the full Kaggle file.
"""

from typing import NamedTuple


class DenseField(NamedTuple):
    """An integer column: x = floor(exp(mean + spread · s)) − 1, with s loading on three common factors."""

    mean: float
    spread: float
    loadings: tuple[float, float, float]


class IdField(NamedTuple):
    """A categorical column: the shares of its commonest ids, then a bounded Pareto tail with power s and shift q."""

    cardinality: int
    head: tuple[float, ...]
    power: float
    shift: float


DENSE = (
    DenseField(0.62, 1.44, (-0.22, -0.1, -0.74)),
    DenseField(2.38, 2.24, (0.1, 0.04, -0.02)),
    DenseField(2.19, 1.49, (-0.25, -0.33, 0.01)),
    DenseField(1.81, 0.91, (-0.42, -0.66, 0.05)),
    DenseField(7.26, 2.4, (0.19, 0.14, 0.81)),
    DenseField(3.65, 1.73, (0.05, -0.28, 0.8)),
    DenseField(1.5, 1.54, (0.5, -0.56, -0.5)),
    DenseField(2.12, 0.96, (-0.23, -0.69, 0.08)),
    DenseField(3.65, 1.6, (0.29, -0.69, 0.25)),
    DenseField(0.68, 0.28, (-0.33, -0.02, -0.82)),
    DenseField(0.97, 0.79, (0.61, -0.58, -0.44)),
    DenseField(-0.03, 1.1, (-0.03, -0.05, -0.17)),
    DenseField(1.96, 1.06, (-0.38, -0.7, 0.37)),
)

IDS = (
    IdField(1460, (0.507, 0.18, 0.089), 1.802, 2.62),
    IdField(583, (0.114, 0.074, 0.044), 2.3, 36.61),
    IdField(10131226, (0.062, 0.042, 0.034), 0.962, 0.37),
    IdField(2202607, (0.09, 0.078, 0.036), 0.985, 0.23),
    IdField(305, (0.675, 0.146, 0.065), 2.3, 2.26),
    IdField(23, (0.525, 0.216, 0.149, 0.056, 0.037), 2.3, 0.01),
    IdField(12517, (0.012, 0.011, 0.009), 0.936, 5.53),
    IdField(633, (0.594, 0.163, 0.081), 2.3, 3.42),
    IdField(3, (0.903, 0.097), 1.2, 1.0),
    IdField(93145, (0.271, 0.015, 0.01), 1.095, 11.13),
    IdField(5683, (0.024, 0.021, 0.013), 1.18, 30.64),
    IdField(8351592, (0.062, 0.042, 0.034), 0.985, 0.52),
    IdField(3194, (0.025, 0.022, 0.015), 1.011, 7.79),
    IdField(27, (0.352, 0.349, 0.161, 0.04, 0.034), 2.3, 1.8),
    IdField(14992, (0.021, 0.02, 0.018), 1.461, 43.5),
    IdField(5461305, (0.062, 0.042, 0.034), 1.008, 0.61),
    IdField(10, (0.416, 0.133, 0.133, 0.076, 0.059), 2.3, 0.3),
    IdField(5652, (0.055, 0.028, 0.025), 1.693, 33.87),
    IdField(2172, (0.56, 0.043, 0.03), 1.617, 27.22),
    IdField(3, (0.339, 0.338), 1.2, 1.0),
    IdField(7046546, (0.062, 0.042, 0.034), 0.993, 0.49),
    IdField(17, (0.519, 0.375, 0.054, 0.041, 0.008), 1.355, 1.0),
    IdField(15, (0.463, 0.203, 0.101, 0.069, 0.053), 2.3, 0.58),
    IdField(286180, (0.092, 0.086, 0.075), 1.058, 0.32),
    IdField(104, (0.346, 0.185, 0.113), 2.3, 2.18),
    IdField(142571, (0.087, 0.039, 0.032), 1.005, 0.72),
)
CARDINALITIES = tuple(field.cardinality for field in IDS)

# Columns are named as in Criteo's own description, from I1 and C1.
ITEM_CHAIN = (3, 12, 21, 16, 4, 24)
PUBLISHER_CHAIN = (7, 11, 13)
CAMPAIGN_CHAIN = (15, 18, 2, 14)
LOOSE = (1, 5, 6, 8, 9, 10, 17, 19, 20, 22, 23, 25, 26)


class MissingSet(NamedTuple):
    """Columns that are missing in the same rows: in what share of rows, and how strongly factor 1 decides."""

    share: float
    loading: float
    dense: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()


MISSING = (
    MissingSet(0.445, 0.5, dense=(1, 10)),
    MissingSet(0.225, 0.3, dense=(3,)),
    MissingSet(0.21, 0.3, dense=(4, 13)),
    MissingSet(0.247, 0.5, dense=(6,)),
    MissingSet(0.047, 0.5, dense=(5,)),
    MissingSet(0.047, 0.5, dense=(7, 9, 11)),
    MissingSet(0.777, 0.3, dense=(12,)),
    MissingSet(0.033, 0.0, ids=(3, 4, 12, 16, 21, 24)),
    MissingSet(0.126, 0.0, ids=(6,)),
    MissingSet(0.483, 0.0, ids=(19, 20, 25, 26)),
    MissingSet(0.816, 0.0, ids=(22,)),
)

# The teacher: P(click) = sigmoid(INTERCEPT + SLOPE · z).
INTERCEPT, SLOPE = -1.6, 0.8
DENSE_WEIGHTS = (0.30, 0.0, -0.08, -0.05, -0.30, -0.30, 0.25, -0.08, 0.0, 0.20, 0.20, 0.25, -0.20)
MISSING_WEIGHTS = (-0.25, 0.0, 0.15, 0.10, -0.2, -0.35, -0.3, 0.0, 0.0, 0.0, 0.0, -0.1, 0.0)
ID_WEIGHTS = (
    *(0.35, 0.35, 0.30, 0.30, 0.20, 0.30, 0.25, 0.20, 0.30, 0.35, 0.25, 0.20, 0.30),
    *(0.35, 0.30, 0.20, 0.40, 0.30, 0.20, 0.30, 0.20, 0.30, 0.40, 0.40, 0.30, 0.30),
)
PAIRS = ((24, 13), (24, 18), (13, 18), (10, 24), (26, 13), (4, 10), (17, 14), (1, 23))
PAIR_WEIGHT = 0.30
PAIR_RANK = 4
EFFECTS_SEED = 20240601
