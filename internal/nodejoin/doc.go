// Package nodejoin gathers the facts for package joinhealth: a pool's instances in the cloud with their Nodes in the
// cluster. The package decides nothing. It keeps only what the next look must remember.
package nodejoin
