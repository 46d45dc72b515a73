"""The content that an experiment hands over, its pictures, and the HTML page that shows it."""
