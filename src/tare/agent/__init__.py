"""Do on one node what the head asks for: pods with their network and containers, counters, facts, clean-up.

In: frozen requests that name a deployment. Out: frozen values; what is held stays here, and the head uses no pid of it.
`remote` does it on another machine, which imports `agent` before it knows what it is for: so nothing is imported here.
Imported by clusters, which give each node its service, and by all above them.
"""
