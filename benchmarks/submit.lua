-- One submission after the other; the same for the floor, which does not look at it.
wrk.method = "POST"
wrk.body = '{"payload": {"angle": 90, "axis": "z", "note": "as long as the payloads that come from a user interface or a script"}}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer @TOKEN@"
