// Package cloud is the contract between Kamino and a cloud: values for machines, disks, images and recipes, calls, and
// errors. The package decides nothing and does no I/O.
//
// Every call returns at once and may be repeated. A look (Pool, Instance, Snapshot, Image, Images, Preflight,
// RecipeChange) never changes anything. An Ensure call starts missing work and reports the current state; callers
// repeat the call until the state is as wanted. Deleting a missing object is no error.
//
// Package cloudtest has the conformance suite for all implementations.
package cloud
