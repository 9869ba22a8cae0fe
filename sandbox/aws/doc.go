// Package aws simulates AWS for nodes in Auto Scaling groups, over HTTPS, for aws-sdk-go-v2. The package simulates
// EC2 (launch templates, instances, volumes, snapshots, images), Auto Scaling, STS, IAM's policy simulation, and the
// instance metadata service, version 2.
//
// The package interprets requests and stores the state on disk. A server on the same directory continues. A
// fleet.Fleet runs the machines and holds the contents of disks; without a fleet, machines have only a power state.
//
// Each noun has a file with its name. Handlers make immediate changes. Later changes are events on the timeline,
// which follows the sandbox's clock: no code sleeps. front handles each request before its noun: signature (package
// sigv4), permissions, faults and rate limits. docs/contribute/sandbox.md lists simplifications.
package aws
