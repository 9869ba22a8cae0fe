// Package node does to a Kubernetes Node what a capture needs: reserve it, cordon it, ask its pods to
// leave, and give it back as it was. Each call does one small thing and returns; nothing here waits or
// blocks. When to do what is decided elsewhere (package capture/plan).
package node
