package tree

// FreeSpace is the free space of a file system for the caller.
type FreeSpace struct {
	Bytes uint64
	// Files is the number of files that can be created; the largest number without a limit.
	Files uint64
}
