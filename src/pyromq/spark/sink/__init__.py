"""Where rows go: files with manifests, table formats, topics. Each commits a batch once, however often it is told."""
