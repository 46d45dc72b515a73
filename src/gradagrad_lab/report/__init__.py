"""What an experiment hands over, how it is drawn, and the HTML page that shows it."""
