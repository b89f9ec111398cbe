"""Why a message does not come: it was left out, or sent to another rank."""
