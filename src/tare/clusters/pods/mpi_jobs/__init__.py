"""Run MPI jobs through the MPI Operator (`MPIJob`, kubeflow.org/v2beta1): manifest, outcome, launcher's output."""
