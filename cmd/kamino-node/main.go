// Command kamino-node is the program on nodes. Kamino runs it in pods, and people run it on mounted disks.
package main

import (
	"os"

	"github.com/kamino-dev/kamino/internal/agent"
)

func main() { os.Exit(agent.Main()) }
