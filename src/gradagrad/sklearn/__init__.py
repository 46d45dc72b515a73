"""Linear models for scikit-learn that need no learning rate: a classifier and a regressor. No torch is imported."""

from gradagrad.sklearn.classifier import GradaGradClassifier as GradaGradClassifier
from gradagrad.sklearn.regressor import GradaGradRegressor as GradaGradRegressor
