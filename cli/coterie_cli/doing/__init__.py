"""What the commands do; imported only when one is run, as it is heavy."""
