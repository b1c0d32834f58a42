"""Carry out edits on the text of a module: where things stand, what changes there, and the merge of it all."""
