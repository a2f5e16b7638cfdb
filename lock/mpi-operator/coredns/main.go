// coredns answers for the services of a lab's Kubernetes: the MPI Operator names workers by their services. It has no
// plug-ins but those that this takes; with all of them it would be compiled for three times as long.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() { coremain.Run() }
