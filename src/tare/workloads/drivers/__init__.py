"""Programs of tare that run a third-party model under an MPI launcher; tools/programs puts them beside the model."""
