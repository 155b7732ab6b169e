"""Readings -> what people and programs read. One module an output; they do not know each other."""
