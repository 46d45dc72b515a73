"""Linear models for scikit-learn that need no learning rate: a classifier and a regressor. They do not import torch."""

from gradagrad.sklearn.classifier import GradaGradClassifier as GradaGradClassifier
from gradagrad.sklearn.regressor import GradaGradRegressor as GradaGradRegressor
