// Package quiet keeps the API server's etcd client from writing JSON lines between those of a terminal.
//
// That client takes its logger when Kubernetes' packages are initialized, with no way to give it another
// one later; all one can do is to change the configuration that it is made from. Go initializes a package
// as soon as its imports are, those with the lesser import path first. This one imports nothing but the
// configuration, and its path is less than those of Kubernetes: so it comes first.
package quiet

import "go.etcd.io/etcd/client/pkg/v3/logutil"

func init() {
	// Without paths a logger writes nowhere. The embedded etcd server gets paths of its own.
	logutil.DefaultZapLoggerConfig.OutputPaths = nil
	logutil.DefaultZapLoggerConfig.ErrorOutputPaths = nil
}
