"""What the terminal and the HTML report both show, as data: pure functions from readings to frozen dataclasses."""
