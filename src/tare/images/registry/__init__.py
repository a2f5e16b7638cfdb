"""Put images into a registry, by the OCI Distribution Specification 1.1, with the credentials that Docker keeps."""
