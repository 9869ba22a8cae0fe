// Package node changes a Kubernetes Node for a capture: reserve, cordon, evict pods, release. Each call does one small
// step and does not wait. Package capture/plan decides the order of the steps.
package node
