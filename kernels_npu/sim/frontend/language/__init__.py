"""The surface of the dialect: what `T` and `T.tile` contain, one table row or function per name."""
