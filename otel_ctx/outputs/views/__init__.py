"""What people look at, as data: curves, maps and tiles out of an analysis. Pure functions to frozen dataclasses; the terminal,
the HTML page and the pictures only draw them."""
