// Package audit checks whether a copy of a running disk is complete: the databases of packages, and the images in container
// stores. A copy of a running disk always has whole file systems, but a transaction of a package manager may be half done, and files
// without a flush may be empty. The package decides from the copy alone, and runs no program.
package audit
