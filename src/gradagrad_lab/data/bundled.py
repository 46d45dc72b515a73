"""Stand-ins where neither network nor data is available: the small data sets that scikit-learn carries."""

import hashlib
from typing import Any

import numpy as np
from sklearn import datasets

from gradagrad_lab.data.dataset import Dataset

_LOADERS = {
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "iris": datasets.load_iris,
}
BUNDLED = tuple(_LOADERS)


def load(name: str) -> Dataset:
    """A bundled data set, its columns scaled to [-1, 1] as LIBSVM scales its own, labelled as the stand-in it is."""
    bunch: Any = _LOADERS[name]()
    raw = np.asarray(bunch.data, dtype=np.float64)
    low, high = raw.min(axis=0), raw.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    features = np.where(high > low, 2.0 * (raw - low) / spread - 1.0, 0.0)
    targets = np.asarray(bunch.target, dtype=np.int64)
    return Dataset(
        name=name,
        label=f"{name.replace('_', ' ')} (scikit-learn stand-in)",
        source="scikit-learn, columns scaled to [-1, 1]",
        sha256=hashlib.sha256(features.tobytes() + targets.tobytes()).hexdigest(),
        features=features,
        targets=targets,
        classes=int(targets.max()) + 1,
    )
