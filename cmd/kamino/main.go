// Command kamino holds all programs of Kamino: the command line, the controller, the job for one capture and the program on
// the node.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/internal/cli"
)

func main() { os.Exit(cli.Main()) }
