// Package karpenter is a PoolProvider for the nodes of Karpenter on AWS. A pool is an EC2NodeClass with all its NodePools. It has no
// size: nodes come from pending pods.
//
// The recipe is spec.amiSelectorTerms with spec.amiFamily. Karpenter replaces ("drifts") every node of the class with another AMI than the
// terms give. So the terms are written only while a budget of each NodePool forbids that: guard.go. Karpenter evaluates a budget
// only seconds before it acts, and no write is conditional on two objects. This is weaker than a launch template, which no controller
// compares with running instances.
//
// Machines outside the pool, for trials and workshops, are NodeClaims without a NodePool on a copy of the class: apart.go.
//
// Objects are read with the smallest types, and written with patches or whole copies, so that unknown fields stay. The ImageProvider is
// the one of package aws. Sources of facts are code and documentation of Karpenter v1.14.
package karpenter
