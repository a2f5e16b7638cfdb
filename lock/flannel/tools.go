//go:build tools

// Package tools names the program that tools/networks compiles, so that go.mod and go.sum hold all that it is made of.
package tools

import _ "github.com/flannel-io/flannel"
