// Package disk does to a disk what a person, or a capture's pod, asks for by its name: generalize it, say beforehand whether
// it could be, or search it afterwards for what must not be in a clone.
//
// It finds out what the name stands for (a mounted copy, the root of a host that works, a raw image), which profile the disk
// is for, and refuses what nobody can have meant, such as to take the identity of the machine that it runs on. What a rule
// means and when there is a proof is decided in package generalize.
package disk
