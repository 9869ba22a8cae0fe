// Command kamino-sandbox runs a Kubernetes cluster on a simulated cloud. All parts run on this machine.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/sandbox/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
