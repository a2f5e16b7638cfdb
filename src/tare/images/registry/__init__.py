"""Name images in registries, and put them there: skopeo does it, with the logins of Docker, Podman and its own."""
