// Command verify-cloud checks on a real cloud what Kamino only assumes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
	"github.com/kamino-dev/kamino/sandbox/realcloud/aws"
	"github.com/kamino-dev/kamino/sandbox/realcloud/azure"
	"github.com/kamino-dev/kamino/sandbox/realcloud/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if len(os.Args) > 1 && os.Args[1] == "cluster" {
		code := cluster.Main(ctx, os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	code := realcloud.Main(ctx, []*realcloud.Cloud{aws.Cloud(), azure.Cloud()}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
