"""How things learn from batches: learners, train states, optimizers, fitting."""
