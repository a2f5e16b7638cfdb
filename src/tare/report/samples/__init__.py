"""The samples of launches, as histograms: read here or by other processes, and drawn."""
