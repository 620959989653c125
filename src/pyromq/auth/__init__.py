"""Who may do what: users and their secrets, rules, the permission each request needs, and the check before handlers."""
