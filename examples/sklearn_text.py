"""Text classification without a learning rate: which package of the standard library is a line from?

    python examples/sklearn_text.py

Needs only ``pip install 'gradagrad[sklearn]'``. The text is Python's own source, as sparse features. The example trains
pipelines with the default penalty, a weaker one, and an l1 penalty. Then it trains chunk by
chunk, as from a stream that does not fit in memory.
"""

import sysconfig
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from gradagrad.sklearn import GradaGradClassifier

PACKAGES = ("asyncio", "email", "importlib", "multiprocessing", "tkinter", "unittest", "xml")


def lines(most: int) -> tuple[list[str], np.ndarray]:
    """Lines of source, in random order, and the packages they are from."""
    library = Path(sysconfig.get_path("stdlib"))
    found: list[tuple[str, str]] = []
    for package in PACKAGES:
        for path in sorted((library / package).glob("*.py")):
            text = path.read_text(encoding="utf-8", errors="ignore")
            found += [(line, package) for line in text.splitlines() if len(line.split()) > 2]
    order = np.random.RandomState(0).permutation(len(found))[:most]
    return [found[i][0] for i in order], np.array([found[i][1] for i in order])


def main(most: int = 10_000) -> dict[str, float]:
    """Trains, prints, and returns the accuracies on the test lines."""
    texts, labels = lines(most)
    train, test, y_train, y_test = train_test_split(texts, labels, random_state=0)
    pattern = r"\w+|[^\w\s]"
    print(f"{len(train):,} lines to learn from, {len(test):,} to test on, {len(PACKAGES)} packages")

    right: dict[str, float] = {}
    for name, model in {
        "SGDClassifier, defaults": SGDClassifier(random_state=0),
        "GradaGradClassifier, defaults": GradaGradClassifier(random_state=0),
        "GradaGradClassifier, weak penalty": GradaGradClassifier(alpha=1e-6, random_state=0),
        "GradaGradClassifier, l1": GradaGradClassifier(penalty="l1", alpha=1e-5, random_state=0),
    }.items():
        pipeline = make_pipeline(TfidfVectorizer(token_pattern=pattern, ngram_range=(1, 2)), model).fit(train, y_train)
        right[name] = pipeline.score(test, y_test)
        zeros = np.mean(model.coef_ == 0.0)
        print(f"{name:32} {100 * right[name]:5.1f} %   {100 * zeros:3.0f} % of coefficients are zero")

    # A stream has no vocabulary beforehand, so words are hashed, and each chunk is seen once.
    hashing = HashingVectorizer(token_pattern=pattern, ngram_range=(1, 2), n_features=2**18)
    stream = GradaGradClassifier(alpha=1e-6, random_state=0)
    for chunk in np.array_split(np.arange(len(train)), 40):
        stream.partial_fit(hashing.transform([train[i] for i in chunk]), y_train[chunk], classes=PACKAGES)
    right["GradaGradClassifier, stream"] = stream.score(hashing.transform(test), y_test)
    print(f"{'GradaGradClassifier, stream':32} {100 * right['GradaGradClassifier, stream']:5.1f} %")
    likely = stream.predict_proba(hashing.transform(["class TestCase(object):"]))[0]
    print(f"class TestCase(object): is from {stream.classes_[likely.argmax()]} with probability {likely.max():.2f}")
    return right


if __name__ == "__main__":
    main()
