"""Programs of ours that run a model of others under an MPI launcher; tools/programs puts them beside the model."""
