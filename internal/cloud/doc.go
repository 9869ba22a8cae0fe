// Package cloud is the contract between Kamino and a cloud: the values that describe machines, disks,
// images and recipes, the calls that look at them and change them, and the few errors that a caller can
// act on. It decides nothing and talks to nobody.
//
// Every call returns at once and may be repeated at any time. A look (Pool, Instance, Snapshot, Image,
// Images, Preflight, RecipeChange) never changes anything. An Ensure call starts what is missing and
// reports the state that it found; the caller asks again until the state is the one it wants. Deleting
// what is not there is not an error.
//
// Package cloudtest holds the suite that every implementation passes.
package cloud
