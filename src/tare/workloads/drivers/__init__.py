"""Scripts that start a third-party model under an MPI launcher; tools/programs installs them next to the model."""
