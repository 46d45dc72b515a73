"""The small data sets of scikit-learn, which replace the paper's if neither data nor a network is available."""

import hashlib
from typing import Any

import numpy as np

from gradagrad_lab.data.dataset import Dataset

BUNDLED = ("digits", "wine", "breast_cancer", "iris")


def load(name: str) -> Dataset:
    """A bundled data set, scaled to [-1, 1] as LIBSVM's are and labelled as a replacement."""
    from sklearn import datasets  # imported here because it takes longer than the command may for an answer

    bunch: Any = getattr(datasets, f"load_{name}")()
    raw = np.asarray(bunch.data, dtype=np.float64)
    low, high = raw.min(axis=0), raw.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    features = np.where(high > low, 2.0 * (raw - low) / spread - 1.0, 0.0)
    targets = np.asarray(bunch.target, dtype=np.int64)
    return Dataset(
        name=name,
        label=f"{name.replace('_', ' ')} (replacement from scikit-learn)",
        source="scikit-learn, columns scaled to [-1, 1]",
        sha256=hashlib.sha256(features.tobytes() + targets.tobytes()).hexdigest(),
        features=features,
        targets=targets,
        classes=int(targets.max()) + 1,
    )
