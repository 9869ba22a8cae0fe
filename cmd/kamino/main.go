// Command kamino is everything that Kamino is: the command line, the controller, the one-shot job and the
// tool that runs on the node.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/internal/cli"
)

func main() { os.Exit(cli.Main()) }
