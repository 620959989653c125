"""Who there is: users and rules on disk, in `plain_acl.yml` and in memory."""
