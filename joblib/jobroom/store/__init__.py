"""SQL, and nothing but SQL: tables, statements, and the lanes that run them."""
