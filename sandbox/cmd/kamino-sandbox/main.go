// Command kamino-sandbox runs a Kubernetes cluster on a simulated cloud. It needs a single machine.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/sandbox/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
