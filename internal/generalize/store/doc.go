// Package store knows what container runtimes keep of containers beside images: the databases of containerd
// and its snapshotters, Docker's layer store, and containers/storage of CRI-O and Podman. A database holds each
// container's specification, with the values of Secrets among its environment, and goes on holding it in
// pages that it has freed.
//
// It decides what in a store belongs to containers (Forget has it go), whether anything of theirs is left
// (Remembers looks again, by other code: it reads pages and files itself), and whether what the store says of
// its images is so (Broken). It does not decide which stores there are: rules name them by their paths.
package store
