// Package aws simulates the part of AWS that nodes in Auto Scaling groups live on, over HTTPS, faithfully enough for
// aws-sdk-go-v2: EC2's query protocol (launch templates, instances, volumes, snapshots,
// images), Auto Scaling's (groups and what they do by themselves), STS, IAM's simulation of policies, and an instance's
// metadata service, version 2.
//
// It decides what a request means and keeps what is known, on disk, so that a server that starts on the same directory
// goes on where the last one ended. It runs no machine and touches no disk content: it orders both through a
// fleet.Fleet, or has machines that are nothing but a power state.
//
// Each noun has a file of its name. What a request changes at once is in its handler; what comes later is an event on
// the timeline, which goes by the sandbox's clock: nothing here sleeps. front is what stands before the handlers:
// signature (package sigv4), permissions, faults, patience. What it answers in simpler ways than AWS does is said in
// docs/sandbox.md.
package aws
