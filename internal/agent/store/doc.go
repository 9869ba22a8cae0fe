// Package store knows the data of container runtimes about containers besides images: databases of containerd and its
// snapshotters, Docker's layer store, and containers/storage of CRI-O and Podman. A database has the specification of
// each container, with values of Secrets in its environment, and keeps old data in freed pages.
//
// The package decides which data belongs to containers (Forget), whether any data remains (Remembers), and whether
// images are intact (Broken). Remembers uses separate code for pages and files. Rules name the stores by path.
package store
