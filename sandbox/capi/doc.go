// Package capi has a cluster managed by Cluster API. Its controllers of clusters, topologies, machine deployments, machine sets, machines and
// kubeadm's bootstrap configurations are Cluster API's own, run as processes of their own with their own definitions and webhooks. The
// infrastructure provider is this package's: it has the shapes of the objects of the providers for AWS and Azure, keeps to their rules,
// and makes its machines wherever it is told.
package capi
