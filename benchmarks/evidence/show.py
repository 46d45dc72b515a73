"""Tables, pictures and the page, all from the records."""
from benchmarks.evidence.run import Records

def table(own: Records) -> str:
    return own.name
