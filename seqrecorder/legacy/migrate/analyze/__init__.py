"""What a script's input pipeline is: its stages, and how data flows between them."""
