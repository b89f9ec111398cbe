"""Why a message does not come: it was left out, sent to another rank, or its sender has gone on to a collective."""
