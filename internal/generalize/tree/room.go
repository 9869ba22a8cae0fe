package tree

// Room is what is free on a file system for who asks.
type Room struct {
	Bytes uint64
	// Files that can still be made; the largest number where nothing limits them.
	Files uint64
}
