// Command kamino-node is the program in the pods on nodes. People run kamino-node on mounted disks.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/internal/agent"
)

func main() { os.Exit(agent.Main()) }
