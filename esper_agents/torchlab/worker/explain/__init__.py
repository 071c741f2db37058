"""Graph breaks and recompilations as Dynamo reports them."""
