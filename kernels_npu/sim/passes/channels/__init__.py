"""Copies between the core types of a block, through workspaces that the compiler adds."""
