"""The suite: many small problems, tuned baselines, parameter-free peers and ours, compared honestly.

``evaluate(problem, factory, seed)`` runs any optimizer on any of its problems.
"""

from gradagrad_lab.suite.catalogue import PROBLEMS as PROBLEMS
from gradagrad_lab.suite.catalogue import Entry as Entry
from gradagrad_lab.suite.catalogue import problem_of as problem_of
from gradagrad_lab.suite.catalogue import problems_at_hand as problems_at_hand
from gradagrad_lab.suite.evaluate import Outcome as Outcome
from gradagrad_lab.suite.evaluate import evaluate as evaluate
