// Package capi runs Cluster API. Its controllers of clusters, topologies, machine deployments, machine sets, machines
// and kubeadm configurations run as separate processes, with their own definitions and webhooks. This package
// implements the infrastructure provider. The objects have the shapes of the providers for AWS and Azure, and follow
// their rules. A Maker runs the machines.
package capi
