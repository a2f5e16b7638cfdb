"""Serve a node that is another machine: `tare node` on it, and the head's side of the conversation.

archive is what is copied to the node, bootstrap what starts it there, wire the form of its messages, serve the loop on
the node, conversation and service the head's side. docs/adr/0022-remote-nodes.md has the design.
"""
