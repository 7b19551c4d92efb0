"""The doors on AWS Lambda: HTTP behind a gateway, and the scheduled sweep."""
