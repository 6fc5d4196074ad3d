"""Small programs that each show one property of swink, or of the software around it."""
