// Package nodecache keeps the Nodes of a large cluster in little memory: stripped, and sorted by pool. For each
// pool the package reports changes.
package nodecache
