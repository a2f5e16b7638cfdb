//go:build tools

// Package tools names the programs that tools/networks compiles, so that go.mod and go.sum hold all that they are made of.
package tools

import (
	_ "github.com/cilium/cilium/daemon"
	_ "github.com/cilium/cilium/plugins/cilium-cni"
)
