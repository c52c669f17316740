"""The surface of the dialect: what `T` and `T.tile` contain. One table row or one function per name."""
