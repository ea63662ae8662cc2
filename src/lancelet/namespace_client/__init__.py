"""What we ask of a namespace, whichever it is: where its tables are, and their versions where it makes them."""
