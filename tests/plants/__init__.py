"""Causes that are planted one at a time, to see whether `tare explain` names them."""
