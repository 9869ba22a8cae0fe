// Package nodecache keeps the nodes of a large cluster in little memory: stripped of what no decision reads, packed
// in words that all of them share, and sorted by pool with what is news of each.
package nodecache
