"""Figure 3: logistic regression on six LIBSVM data sets."""
