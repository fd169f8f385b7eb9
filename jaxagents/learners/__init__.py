"""Learning from batches: learners, train states, optimizers and fitting."""
