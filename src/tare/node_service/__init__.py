"""Do on one node what the head asks for: pods with their network and containers, counters, facts, clean-up.

In: frozen requests that name a deployment. Out: frozen values; what is held stays here, and no pid has to mean anything
elsewhere. Imported by clusters, which give each node its service, and by all above them.
"""
