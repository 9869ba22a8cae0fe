// Command kamino-sandbox runs a Kubernetes cluster on a simulated Azure on this machine, to try Kamino on.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/sandbox/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
