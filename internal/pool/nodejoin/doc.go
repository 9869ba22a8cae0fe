// Package nodejoin gathers the facts for package joinhealth: a pool's instances in the cloud with their Nodes in the
// cluster. The package decides nothing. Memory holds the facts for the next look.
package nodejoin
